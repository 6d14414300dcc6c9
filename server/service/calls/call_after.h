#pragma once

#include <memory>

#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead {

// Has the loop's thread call `method` of `object`, which shared_ptrs own when this is called, after
// `delay`, unless the object is gone by then. On any thread.
template <typename Object>
void CallAfter(EventLoop* loop, absl::Duration delay, Object* object, void (Object::*method)()) {
  const auto self = std::static_pointer_cast<Object>(object->shared_from_this());
  loop->Post([loop, delay, weak = std::weak_ptr<Object>(self), method] {
    loop->After(delay, [weak, method] {
      if (const auto late = weak.lock()) (late.get()->*method)();
    });
  });
}

}  // namespace bulkhead
