"""Speed as ratios in one run: what is served against bare ONNX Runtime on the same machine."""
