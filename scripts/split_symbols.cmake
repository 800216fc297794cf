# Run by cmake --install: moves the symbols of `program`, an installed file, into .debug/NAME.debug beside
# it, with `objcopy`. Where that is missing or fails, the program stays as it is.
cmake_path(GET program PARENT_PATH directory)
cmake_path(GET program FILENAME name)
set(symbols "${directory}/.debug/${name}.debug")

function(split)
  file(REMOVE "${symbols}")  # of an earlier version
  if(NOT objcopy)
    message(STATUS "objcopy is missing: ${program} keeps its symbols")
    return()
  endif()
  file(MAKE_DIRECTORY "${directory}/.debug")
  execute_process(COMMAND "${objcopy}" --only-keep-debug "${program}" "${symbols}"
                  RESULT_VARIABLE failed)
  if(NOT failed)
    execute_process(COMMAND "${objcopy}" --strip-all "--add-gnu-debuglink=${symbols}" "${program}"
                    RESULT_VARIABLE failed)
  endif()
  if(failed)
    message(WARNING "${objcopy} failed: ${program} keeps its symbols")
    file(REMOVE "${symbols}")
    return()
  endif()
  file(CHMOD "${symbols}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  message(STATUS "Installing: ${symbols}")
  string(LENGTH "$ENV{DESTDIR}" before)
  string(SUBSTRING "${symbols}" ${before} -1 installed)
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES};${installed}" PARENT_SCOPE)
endfunction()

split()
