# For code that is not in users' work loops, and for tests' own: optimizing it takes longer than running it.
if(NOT BULKHEAD_STATIC)
  set(BULKHEAD_QUICK $<$<CONFIG:Release>:-O1>)
endif()
set(BULKHEAD_OF_TESTS $<$<CONFIG:Release>:-O0>)
# Libraries that work on samples, and all whose code runs with each sample.
set(BULKHEAD_BUSY image pipeline running_stages source)
set(BULKHEAD_FAST ${BULKHEAD_BUSY} allocation_tracker arena base cache elements sampler worker)
if(BULKHEAD_STATIC)
  set(BULKHEAD_BUSY image running_stages)  # so that it has less than 12 MB
endif()

# What the sources of a target include is parsed and instantiated once for several of them: half of the time of a build.
# Off, a change of one source is built sooner, and each source shows whether it includes what it uses.
option(BULKHEAD_UNITY "Compile several sources of a target at once" ON)
function(bulkhead_compile_together target sources)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BULKHEAD_UNITY} UNITY_BUILD_BATCH_SIZE ${sources})
endfunction()

# bulkhead_library(NAME [QUICK] SOURCES … DEPS … [PRIVATE_DEPS …]) - static library `bulkhead_NAME`, alias
# `bulkhead::NAME`. QUICK: its code runs once a command or a stream, not with each sample or batch.
function(bulkhead_library name)
  cmake_parse_arguments(ARG "QUICK" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(bulkhead_${name} STATIC ${ARG_SOURCES})
  add_library(bulkhead::${name} ALIAS bulkhead_${name})
  target_include_directories(bulkhead_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(bulkhead_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  set(headers bulkhead_headers)
  if(BULKHEAD_STATIC AND NOT name IN_LIST BULKHEAD_FAST)
    set(ARG_QUICK TRUE)
    set(headers bulkhead_small_headers)
  endif()
  if(ARG_QUICK)
    target_compile_options(bulkhead_${name} PRIVATE ${BULKHEAD_QUICK})
  elseif(name IN_LIST BULKHEAD_BUSY)
    target_compile_options(bulkhead_${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  bulkhead_take_headers(bulkhead_${name} ${headers})
  bulkhead_compile_together(bulkhead_${name} 32)
endfunction()

# Among the sources of each program that users run.
set(BULKHEAD_CPU_CHECK ${PROJECT_SOURCE_DIR}/server/os/process/cpu_check.cc)

# bulkhead_program(NAME SOURCES … DEPS …) - an executable in build/<preset>/bin.
function(bulkhead_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# bulkhead_test(NAME [BUSY] SOURCES … DEPS … [LABELS …] [TIMEOUT seconds]) - a GoogleTest program registered with ctest.
# BUSY: it computes so much that it is worth optimizing.
function(bulkhead_test name)
  cmake_parse_arguments(ARG "BUSY" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(NOT ARG_BUSY)
    target_compile_options(${name} PRIVATE ${BULKHEAD_OF_TESTS})
    bulkhead_take_headers(${name} bulkhead_test_headers)
  endif()
  bulkhead_compile_together(${name} 64)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT}
    LABELS "${ARG_LABELS}"
    ENVIRONMENT "BULKHEAD_SOURCE_DIR=${PROJECT_SOURCE_DIR};BULKHEAD_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()

# Tests of programs wait for processes three quarters of the time, so more of them run at once than there are cores.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR jobs "2 * ${cores} + 4")
set(BULKHEAD_PYTEST_JOBS ${jobs} CACHE STRING "Tests of a large Python suite that run at once")

# bulkhead_pytest(NAME [SPREAD] [ALONE] [PATH path] LABELS … TIMEOUT seconds) - the pytest suite in this folder, or at `path`
# below it, run by Debian's Python, which has the packages that setup.sh installs. SPREAD: several of its tests at once.
# ALONE: nothing beside it. What its slow_tests.txt names is left out unless BULKHEAD_EXTENDED is set.
function(bulkhead_pytest name)
  cmake_parse_arguments(ARG "SPREAD;ALONE" "PATH;TIMEOUT" "LABELS" ${ARGN})
  set(options -q -p no:cacheprovider -p slow_tests -p tidy_tests)
  if(ARG_SPREAD)
    list(APPEND options -n ${BULKHEAD_PYTEST_JOBS} --dist loadgroup)
  endif()
  add_test(NAME ${name} COMMAND /usr/bin/python3 -m pytest ${options} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_PATH})
  string(JOIN ";" environment
    PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/e2e:${PROJECT_SOURCE_DIR}/client/python
    PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache
    PYTHONDONTWRITEBYTECODE=  # hundreds of processes import the client: compiled once, that is half of it
    BULKHEAD_SOURCE_DIR=${PROJECT_SOURCE_DIR}
    BULKHEAD_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    BULKHEAD_BUILD_DIR=${CMAKE_BINARY_DIR})
  if(ARG_SPREAD)
    set_tests_properties(${name} PROPERTIES PROCESSORS ${cores})
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${ARG_ALONE} LABELS "${ARG_LABELS}" ENVIRONMENT "${environment}")
endfunction()
