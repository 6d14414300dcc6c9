#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_CREDENTIALS_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_CREDENTIALS_H_

#include <string>

namespace bulkhead {

// How a service and its client identify each other (docs/security.md). A field that is empty is
// taken from the target file, if there is one, or else from its environment variable. Files are
// read for every connection, so a new one is used from the next connection on. An embedded service
// takes none of this. `socket_user` is for Unix sockets, the others are for TCP.
struct Credentials {
  // $BULKHEAD_TLS_CA: PEM file of the authority that signs services' certificates. With it
  // connections over TCP use TLS, without it they do not.
  std::string ca;
  // $BULKHEAD_TLS_CERT, $BULKHEAD_TLS_KEY: PEM files of this client's certificate and its key.
  std::string cert;
  std::string key;
  // $BULKHEAD_TOKEN_FILE: file with the token for a service that takes one instead.
  std::string token_file;
  // $BULKHEAD_SOCKET_USER: name or number of the user whose service may listen at a Unix socket,
  // beside this process's own user and root.
  std::string socket_user;
};

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_CREDENTIALS_H_
