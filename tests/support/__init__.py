"""What the tests that need processes and sockets are made of.

process.py  a child process that ends with its parent
mongod.py   a throw-away mongod, standalone or a one-member replica set
guarded.py  a mongod that knows users
replica_set.py  three members, to be stepped down, killed, cut off and brought back
proxy.py    a running mongo-idproxy and its log
wire.py     raw messages: built, sent and read byte by byte
elements.py BSON taken apart into elements, and put together wrongly on purpose
middleman.py  between a client and a server: notes, cuts, holds, falsifies, lets nobody in, falls silent
thief.py    a middleman that takes generated values away before they arrive: real duplicates, on demand
bulk_write_server.py  a middleman that gives an older mongod the command bulkWrite of 8.0
chaos.py    a middleman that drops connections at random messages, and the ledger that judges the outcome
failover.py drivers that write while primaries step down and die
counters.py inserts that proxies number, one by one or as a load from many clients
audit.py    who ever had which value, as a change stream has it
profiler.py the commands of the proxy's own connections, as mongod counts them
fake_server.py  a scripted server, for replies that no mongod gives
crowd_server.py  a server for thousands of connections
"""
