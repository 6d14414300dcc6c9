# The headers that most sources share are parsed once: they took more time to build than the project's own code.
# Each source still includes what it uses; a build with -DBULKHEAD_PRECOMPILED_HEADERS=OFF shows whether it does.
option(BULKHEAD_PRECOMPILED_HEADERS "Parse the headers that most sources share once" ON)

set(BULKHEAD_SHARED_HEADERS
  <algorithm> <atomic> <cstdint> <cstring> <deque> <functional> <map> <memory> <optional> <set> <string> <thread>
  <utility> <vector>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/strings/str_split.h>
  <absl/synchronization/mutex.h> <absl/time/clock.h> <absl/time/time.h>
  <bulkhead/v1/loader.pb.h> <bulkhead/internal/v1/worker.pb.h>)

if(BULKHEAD_PRECOMPILED_HEADERS)
  set(nothing ${CMAKE_BINARY_DIR}/headers/nothing.cc)
  file(CONFIGURE OUTPUT ${nothing} CONTENT "int main() {}\n")
  set(where bulkhead::proto absl::statusor absl::strings absl::synchronization absl::time)
  add_library(bulkhead_headers OBJECT ${nothing})
  target_link_libraries(bulkhead_headers PRIVATE ${where})
  target_precompile_headers(bulkhead_headers PRIVATE ${BULKHEAD_SHARED_HEADERS})
  # ccache has handed out parsed headers from before a .proto changed: these are parsed by the compiler itself.
  set(parse ${PROJECT_SOURCE_DIR}/cmake/parse_headers.sh)
  set_target_properties(bulkhead_headers PROPERTIES CXX_COMPILER_LAUNCHER ${parse})
endif()
if(BULKHEAD_PRECOMPILED_HEADERS AND BULKHEAD_STATIC)
  # GCC takes nothing that was parsed with -O2 into what it makes with -Os,
  add_library(bulkhead_small_headers OBJECT ${nothing})
  target_compile_options(bulkhead_small_headers PRIVATE ${BULKHEAD_QUICK})
  target_link_libraries(bulkhead_small_headers PRIVATE ${where})
  target_precompile_headers(bulkhead_small_headers PRIVATE ${BULKHEAD_SHARED_HEADERS})
  set_target_properties(bulkhead_small_headers PROPERTIES CXX_COMPILER_LAUNCHER ${parse})
elseif(BULKHEAD_PRECOMPILED_HEADERS)
  # or with -fPIC into what it makes with -fPIE, as test programs are.
  add_executable(bulkhead_test_headers ${nothing})
  target_link_libraries(bulkhead_test_headers PRIVATE ${where} GTest::gmock)
  target_compile_options(bulkhead_test_headers PRIVATE ${BULKHEAD_OF_TESTS})
  target_precompile_headers(bulkhead_test_headers PRIVATE ${BULKHEAD_SHARED_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  set_target_properties(bulkhead_test_headers PROPERTIES
    CXX_COMPILER_LAUNCHER ${parse} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
endif()

# Lets `target` take its headers from `parsed`. Not for one that is compiled with options of its own.
function(bulkhead_take_headers target parsed)
  if(BULKHEAD_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${parsed})
  endif()
endfunction()
