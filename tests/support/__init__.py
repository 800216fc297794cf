"""What the tests that need processes and sockets are made of.

process.py  a child process that ends with its parent
mongod.py   a throw-away mongod, standalone or a one-member replica set
proxy.py    a running mongo-idproxy and its log
wire.py     raw messages: built, sent and read byte by byte
elements.py BSON taken apart into elements, and put together wrongly on purpose
relay.py    a TCP relay that cuts a connection at an exact byte
thief.py    a relay that takes generated values away before they arrive: real duplicates, on demand
chaos.py    a relay that drops connections at random messages, and the ledger that judges the outcome
fake_server.py  a scripted server, for replies that no mongod gives
"""
