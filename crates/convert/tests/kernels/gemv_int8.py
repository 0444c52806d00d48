def reference(W, x, row_scale):
    return (W @ x) * row_scale
