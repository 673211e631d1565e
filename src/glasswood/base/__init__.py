"""What every folder may use and what knows no model: types, files, devices, threads, escapes, wording."""
