// Nothing: a target for precompiled.hpp.
