"""What a task is: records, policies, words and errors. Pure data, no behaviour."""
