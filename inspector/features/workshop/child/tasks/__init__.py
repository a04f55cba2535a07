"""The child's side of a task: read the request, write the result, report how the user's code failed."""
