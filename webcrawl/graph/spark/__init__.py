"""The graphs of a link store by Apache Spark, for more pages than one machine takes.

Degrees, PageRank and weak components are queries in Spark's SQL, so executors need neither Python nor this package.
"""
