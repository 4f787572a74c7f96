"""The engine: drives capture, build and write on Spark. The only importer of pyspark."""
