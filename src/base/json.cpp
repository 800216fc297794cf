// Boost.JSON has no library here, only headers: this file is the library, for the whole program.
#include <boost/json/src.hpp>
