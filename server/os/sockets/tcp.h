#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// A socket that listens, non-blocking and close-on-exec, and its port.
struct TcpListener {
  UniqueFd fd;
  uint16_t port = 0;
};

// Listens on an IP address of this machine, "127.0.0.1" or "::1"; port 0 chooses one. At most
// `backlog` connections wait to be accepted. INVALID_ARGUMENT for what is no IP address; statuses
// of errno where it cannot be listened on.
absl::StatusOr<TcpListener> ListenTcp(const std::string& address, uint16_t port, int backlog);

// The IP addresses to listen on for `host`, a name or an address; if it means every address of the
// machine, one of each family. Blocks for the name service. NOT_FOUND if there are none.
absl::StatusOr<std::vector<std::string>> AddressesOf(const std::string& host);

// Lets small messages go out at once, and ends the connection when its peer acknowledges nothing
// for `silence`.
void SetTcpOptions(int connection, absl::Duration silence);
// Lets about `bytes` wait to be read.
void SetReceiveBytes(int connection, int bytes);

// The host at the other end of a connection: "10.0.0.7", or of IPv6 the network of 64 bits, as a
// host has as many addresses as it likes there: "2001:db8::/64".
absl::StatusOr<std::string> PeerHost(int connection);
// The other end: "ipv4:10.0.0.7:4321", "ipv6:[fe80::1]:4321"; empty: it is gone.
std::string PeerAddress(int connection);

// Whether the other end of a connection is on this host, by a loopback address.
bool IsLoopbackPeer(int connection);

// A number that no other socket has while this one is open; 0: `fd` is open for no socket.
uint64_t SocketNumber(int fd);
// Ends the connection whose SocketNumber is `number`, if `fd` is still its descriptor; both sides
// are told, and the descriptor stays its owner's. Over TCP what has come and was not read is lost.
void ShutDownSocket(int fd, uint64_t number);
// Bytes that have come over a connection of TCP; 0: it is none.
uint64_t BytesReceived(int connection);

// What has come, at most `max_bytes`; empty if the peer hung up. Never blocks: UNAVAILABLE if
// nothing has come.
absl::StatusOr<std::string> ReceiveBytes(int fd, size_t max_bytes);

// Sends the first bytes of `bytes`, and returns how many. Never blocks: UNAVAILABLE while the
// peer's buffer is full.
absl::StatusOr<size_t> SendBytes(int fd, absl::string_view bytes);

}  // namespace bulkhead
