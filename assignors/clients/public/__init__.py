"""What applications import, as `levelwind.clients`.

Each Kafka client has a module of its own, which alone imports that client; `classic` has what the
assignors of classic groups take besides.
"""
