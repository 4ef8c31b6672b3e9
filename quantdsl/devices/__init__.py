"""Where compiled lanes run: the cores of this machine, its GPUs, or a GPU played on the CPU.

    work         what a sweep hands over (LaneWork) and who runs it (Runner)
    choose       `--device`: a word of the command line to a runner; several runners as one
    cpu          lanes on pinned threads, one a core; what is known of the CPU
    cluster      lanes on the nodes of a Ray cluster
    simulated    kernels with blocks, threads, shared memory and barriers, without a GPU
    cuda/        the driver, memory, streams, graphs, launches, lanes
    failure      one error for everything that a device refuses, with its history
    profile      times and bytes of each kernel; a trace for a browser

Nothing here imports CUDA until a GPU is asked for.
"""
