"""The frontier as an open protocol: queues of URLs for crawlers of any kind, over gRPC (URLFrontier 2.6).

`messages` has the protocol's messages, `conversion` what they are in the engine, `queues` the calls of the engine,
`service` the methods of the protocol, and `server` the server with TLS, `health` and `reflection`. `http2` and `calls`
are gRPC itself: a stream of small messages costs a tenth there of what it costs with grpcio.
"""
