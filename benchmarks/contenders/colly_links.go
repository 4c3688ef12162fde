// Colly: OnHTML for links, the queue in memory. With a file to write to: URL, title, text, links
// and HTML of each page as JSON.
//
// colly_links SEEDS ALLOW PAGES CONCURRENCY A_HOST DELAY OUT (as scrapy_links.py; DELAY in seconds, OUT "" for none)
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocolly/colly/v2"
)

type page struct {
	URL, Title, Text, HTML string
	Links                  []string
}

func main() {
	seeds := strings.Split(os.Args[1], ",")
	most, _ := strconv.ParseUint(os.Args[3], 10, 32)
	perHost, _ := strconv.Atoi(os.Args[5])
	delay, _ := strconv.ParseFloat(os.Args[6], 64)
	crawler := colly.NewCollector(colly.Async(true), colly.URLFilters(regexp.MustCompile(os.Args[2])))
	crawler.IgnoreRobotsTxt = false
	crawler.MaxBodySize = 0
	crawler.MaxRequests = uint32(most)
	for _, seed := range seeds { // a rule for all hosts would delay them together
		host := strings.SplitN(seed, "/", 4)[2]
		pause := time.Duration(delay * float64(time.Second))
		crawler.Limit(&colly.LimitRule{DomainGlob: host, Parallelism: perHost, Delay: pause})
	}
	var lock sync.Mutex
	var out *bufio.Writer
	if os.Args[7] != "" {
		file, err := os.Create(os.Args[7])
		if err != nil {
			panic(err)
		}
		out = bufio.NewWriter(file)
		defer file.Close()
		defer out.Flush()
	}
	crawler.OnHTML("html", func(document *colly.HTMLElement) {
		links := document.ChildAttrs("a[href]", "href")
		for _, link := range links { // a fragment would make another URL of the page
			if address, _, _ := strings.Cut(link, "#"); address != "" {
				document.Request.Visit(address)
			}
		}
		if out == nil {
			return
		}
		line, _ := json.Marshal(page{
			document.Request.URL.String(), document.ChildText("title"), document.ChildText("body"),
			string(document.Response.Body), links})
		lock.Lock()
		defer lock.Unlock()
		out.Write(append(line, '\n'))
	})
	for _, seed := range seeds {
		crawler.Visit(seed)
	}
	crawler.Wait()
}
