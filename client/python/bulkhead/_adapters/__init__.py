"""What the adapters to PyTorch, TensorFlow, Keras and JAX share."""
