def f(index): return index
