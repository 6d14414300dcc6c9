"""The common part of the adapters to PyTorch, TensorFlow, Keras and JAX."""
