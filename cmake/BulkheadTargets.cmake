# For code outside users' programs, or not in their work loops: optimizing it takes longer than running it.
set(BULKHEAD_QUICK $<$<CONFIG:Release>:-O1>)

# bulkhead_library(NAME SOURCES … DEPS … [PRIVATE_DEPS …]) - static library `bulkhead_NAME`, alias `bulkhead::NAME`.
function(bulkhead_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(bulkhead_${name} STATIC ${ARG_SOURCES})
  add_library(bulkhead::${name} ALIAS bulkhead_${name})
  target_include_directories(bulkhead_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(bulkhead_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  bulkhead_take_headers(bulkhead_${name} bulkhead_headers)
endfunction()

# bulkhead_program(NAME SOURCES … DEPS …) - an executable in build/<preset>/bin.
function(bulkhead_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# bulkhead_test(NAME SOURCES … DEPS … [LABELS …] [TIMEOUT seconds]) - a GoogleTest program registered with ctest.
# Only tests labelled `unit` run beside others: the rest wait for processes, and measure their memory.
function(bulkhead_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${BULKHEAD_QUICK})
  bulkhead_take_headers(${name} bulkhead_test_headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(run_serial TRUE)
  if("unit" IN_LIST ARG_LABELS)
    set(run_serial FALSE)
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT}
    RUN_SERIAL ${run_serial}
    LABELS "${ARG_LABELS}"
    ENVIRONMENT "BULKHEAD_SOURCE_DIR=${PROJECT_SOURCE_DIR};BULKHEAD_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()
