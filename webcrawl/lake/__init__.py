"""Tables of Apache Iceberg over the files of a crawl."""
