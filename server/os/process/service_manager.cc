#include "server/os/process/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"

namespace bulkhead {

ServiceManager ServiceManager::FromEnvironment() {
  const char* const address = std::getenv("NOTIFY_SOCKET");
  ServiceManager manager(address == nullptr ? "" : address);
  unsetenv("NOTIFY_SOCKET");
  return manager;
}

void ServiceManager::TellReady(absl::string_view status) const {
  Tell(absl::StrCat("READY=1\nSTATUS=", absl::StrReplaceAll(status, {{"\n", " "}})));
}

void ServiceManager::TellReloading() const {
  Tell(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", MonotonicNanos() / 1000));
}

void ServiceManager::TellStopping() const { Tell("STOPPING=1"); }

void ServiceManager::Tell(const std::string& state) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (address_.empty() || address_.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address_[0] == '@') address.sun_path[0] = '\0';
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  sendto(fd.get(), state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size()));
}

}  // namespace bulkhead
