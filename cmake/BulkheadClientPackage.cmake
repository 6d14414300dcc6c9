# The C++ client for programs outside this tree: headers, static libraries, and what find_package and pkg-config need
# (`cmake --install build --component client`).
include(CMakePackageConfigHelpers)
set(BULKHEAD_CMAKE_DIR lib/cmake/Bulkhead)

set_target_properties(bulkhead_client PROPERTIES EXPORT_NAME client)
set_target_properties(bulkhead_proto PROPERTIES EXPORT_NAME proto)
set_target_properties(bulkhead_proto_grpc PROPERTIES EXPORT_NAME proto_grpc)
install(TARGETS bulkhead_client bulkhead_proto bulkhead_proto_grpc EXPORT BulkheadTargets
  ARCHIVE DESTINATION lib COMPONENT client
  INCLUDES DESTINATION include)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/cpp/bulkhead DESTINATION include COMPONENT client FILES_MATCHING PATTERN "*.h")
install(EXPORT BulkheadTargets NAMESPACE Bulkhead:: DESTINATION ${BULKHEAD_CMAKE_DIR} COMPONENT client)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BulkheadConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/BulkheadConfig.cmake INSTALL_DESTINATION ${BULKHEAD_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/BulkheadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/bulkhead.pc.in ${CMAKE_CURRENT_BINARY_DIR}/bulkhead.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/BulkheadConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/BulkheadConfigVersion.cmake
  DESTINATION ${BULKHEAD_CMAKE_DIR} COMPONENT client)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bulkhead.pc DESTINATION lib/pkgconfig COMPONENT client)
