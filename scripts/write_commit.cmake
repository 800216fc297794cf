# Writes the commit of the tree `source` into `header`, if that has another one. Run by each build, so that a
# commit makes it compile the one file that includes this header.
set(commit unknown)
# scripts/package writes it into its copy of the tree.
if(EXISTS "${source}/.commit")
  file(STRINGS "${source}/.commit" commit LIMIT_COUNT 1)
  string(SUBSTRING "${commit}" 0 12 commit)
endif()
# Inside another repository, as a distribution's, a tree has no commit of its own.
if(EXISTS "${source}/.git")
  execute_process(COMMAND git -C "${source}" rev-parse HEAD OUTPUT_VARIABLE head
                  RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    string(SUBSTRING "${head}" 0 12 commit)
  endif()
endif()
file(CONFIGURE OUTPUT "${header}" CONTENT "#define IDPROXY_COMMIT \"${commit}\"\n")
