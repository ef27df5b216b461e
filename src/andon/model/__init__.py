"""The data of tasks: records, policies, words and errors. Pure data, no behaviour."""
