"""NVIDIA GPUs, through the driver's API as cuda.bindings gives it.

    driver    every call to the driver, and its refusals as DeviceError
    device    one GPU: context, attributes, pools
    memory    stream-ordered pool, pinned and managed memory
    stream    streams, events, copies, graphs
    kernel    code to load, launches prepared once and started often
    lanes     the lanes of a sweep

Only driver.py imports CUDA, and only when a GPU is asked for.
"""
