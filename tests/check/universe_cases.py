"""Mistakes on a universe: each is a part of a strategy that the compiler refuses."""

UNIVERSES = {
    "share of all in ticks": "plot(xs.winsorize(close, 3 ticks))",
    "share of all above all": "plot(xs.quantile(close, 30))",
    "share of two tails above half": "plot(xs.mean(xs.winsorize(close, 60%)))",
    "share of all below none": "plot(xs.spread(close, -1%))",
    "share of all by a param": (
        "param tail = 20 in 10..30\n    plot(xs.spread(close, tail))"
    ),
    "share of all by a param in percent": (
        "param tail = 50% in 10%..150%\n    plot(xs.spread(close, tail))"
    ),
    "share that reads as one": "plot(xs.mean(1.0 if xs.top(close, 1) else 0.0))",
    "count of what is true": "plot(xs.count(close > open))",
    "gross below none": "plot(xs.sum(xs.scale(close, gross = -100%)))",
    "gross below none by a param": (
        "param g = 100% in -50%..100%\n    plot(xs.sum(xs.weights(close, gross = g)))"
    ),
    "gross that reads as percent": "plot(xs.mean(xs.weights(close, gross = 150)))",
    "two columns beside groups": "plot(xs.mean(xs.neutralize(close, open, by = sector)))",
    "a tail of each group": (
        "plot(xs.mean(1.0 if xs.bottom(close, 10%, by = sector) else 0.0))"
    ),
    "net beyond gross": "plot(xs.sum(xs.weights(close, net = -150%)))",
    "share of all in time": "plot(xs.spread(close, 1s))",
    "least trade in money": (
        "let w = xs.weights(close)\n    at 15:45:\n        rebalance(w, min_trade = 100 USD)"
    ),
    "least trade in shares": (
        "let w = xs.weights(close)\n    at 15:45:\n        rebalance(w, min_trade = 100 shares)"
    ),
    "position of all in shares": (
        "plot(xs.sum(close))\n    risk:\n        max_position = 100 shares"
    ),
    "gross of all in shares": "plot(xs.sum(close))\n    risk:\n        max_gross = 100 shares",
    "bars are na": "plot(xs.sum(close) if bars is na else 1.0)",
    "two universes": 'universe "B"\n    plot(xs.sum(close))',
    "universe and instrument": 'instrument "KO"',
    "cross-section of one number": 'plot(xs.sum(3.0))',
    "cross-section of an account": 'on bar:\n        let r = xs.sum(close * float(position))',
    "cross-section by a price": 'plot(xs.sum(xs.demean(close, by = close)))',
    "cross-section that is not there": 'plot(xs.sum(xs.ranks(close)))',
    "cross-section without its share": 'plot(xs.spread(close))',
    "plot of a panel": 'plot(xs.rank(close))',
    "adjusted without being asked": 'plot(xs.sum(adj.close))',
    "price for a portfolio": 'at 15:45:\n        log("{close}")',
    "signal for a portfolio": "@async(deadline = 2ms)\n    let a = ta.sma(close, 9)\n"
    "    at 15:45:\n        if a is not na:\n            flatten()",
    "order for a portfolio": 'at 15:45:\n        buy(1 shares)',
    "position for a portfolio": 'at 15:45:\n        if flat:\n            flatten()',
    "rebalance of each": 'on bar:\n        rebalance(close)',
    "rebalance in a loop": (
        'at 15:45:\n        for i in universe:\n            rebalance(xs.rank(close))'
    ),
    "rebalance to a price": 'at 15:45:\n        rebalance(close)',
    "rebalance to what a handler makes": (
        'at 15:45:\n        let k = 0.5\n        rebalance(xs.rank(close) * k)'
    ),
    "rebalance to a number": 'at 15:45:\n        rebalance(3.0, via = moc)',
    "rebalance by mail": 'at 15:45:\n        rebalance(xs.rank(close), via = mail)',
    "rebalance below nothing": 'at 15:45:\n        rebalance(xs.rank(close), min_trade = -1%)',
    "rebalance of nothing": 'at 15:45:\n        rebalance(xs.rank(close), max_turnover = 0%)',
    "rebalance by a turnover that reads as percent": (
        'at 15:45:\n        rebalance(xs.rank(close), max_turnover = 60)'
    ),
    "test of a universe": 'plot(xs.sum(close))\n    test "a":\n'
    "        given sector = [0]\n        feed UP = [1], DOWN = [1]\n"
    "        expect long or UP.close[1] > 1",
}
