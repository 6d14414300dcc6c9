#include "client/cpp/internal/service/endpoint.h"

#include <utility>

#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/service/service_log.h"

namespace bulkhead::client_internal {

absl::StatusOr<std::shared_ptr<Endpoint>> Endpoint::Make(const std::string& target,
                                                         const EmbeddedOptions& options,
                                                         absl::Duration deadline) {
  std::shared_ptr<Endpoint> endpoint(new Endpoint(options, target.empty()));
  if (target.empty()) {
    BULKHEAD_RETURN_IF_ERROR(endpoint->Revive(deadline, [] { return false; }));
  } else {
    absl::MutexLock lock(&endpoint->mutex_);
    endpoint->target_ = target;
  }
  return endpoint;
}

std::string Endpoint::target() const {
  absl::MutexLock lock(&mutex_);
  return target_;
}

absl::Status Endpoint::Revive(absl::Duration deadline, const std::function<bool()>& cancelled) {
  if (!embedded_) return absl::OkStatus();
  BULKHEAD_ASSIGN_OR_RETURN(auto service, EmbeddedService::Acquire(options_, deadline, cancelled));
  absl::MutexLock lock(&mutex_);
  target_ = service->target();
  service_.swap(service);  // the old one is destroyed after the lock is released
  return absl::OkStatus();
}

void Endpoint::KillSilent(const std::string& target) {
  std::shared_ptr<EmbeddedService> service;
  {
    absl::MutexLock lock(&mutex_);
    service = service_;
  }
  if (service != nullptr && service->target() == target) service->Kill();
}

std::string Endpoint::PostMortem() const {
  std::shared_ptr<EmbeddedService> service;
  {
    absl::MutexLock lock(&mutex_);
    service = service_;
  }
  return service == nullptr ? std::string() : service->PostMortem();
}

absl::Status Endpoint::ForProgram(const absl::Status& error) const {
  absl::MutexLock lock(&mutex_);
  return service_ == nullptr ? error : client_internal::ForProgram(error, service_->log());
}

}  // namespace bulkhead::client_internal
