"""One module for each family of commands; `application.MODULES` says which has which."""
