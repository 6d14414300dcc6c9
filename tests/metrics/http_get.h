#ifndef BULKHEAD_TESTS_METRICS_HTTP_GET_H_
#define BULKHEAD_TESTS_METRICS_HTTP_GET_H_

#include <string>

namespace bulkhead {

// Sends `request` to a port of the loopback and returns everything that comes back until the other
// side closes; empty when it does not answer.
std::string HttpExchange(int port, const std::string& request);

// The same for "GET path".
std::string HttpGet(int port, const std::string& path);

}  // namespace bulkhead

#endif  // BULKHEAD_TESTS_METRICS_HTTP_GET_H_
