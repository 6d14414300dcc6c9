"""gRPC: its channels and forks, the message classes, and the parser of what a stream sends."""
