#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "server/objects/aws_file.h"

namespace bulkhead {

// Variables of a process that has no others. Those handed out follow later changes.
class FakeEnvironment {
 public:
  FakeEnvironment(std::initializer_list<std::pair<const std::string, std::string>> variables = {})
      : variables_(std::make_shared<std::map<std::string, std::string>>(variables)) {}

  void Set(const std::string& name, const std::string& value) { (*variables_)[name] = value; }
  void Unset(const std::string& name) { variables_->erase(name); }
  Environment get() const {
    return [variables = variables_](const char* name) -> const char* {
      const auto found = variables->find(name);
      return found == variables->end() ? nullptr : found->second.c_str();
    };
  }

 private:
  std::shared_ptr<std::map<std::string, std::string>> variables_;
};

}  // namespace bulkhead
