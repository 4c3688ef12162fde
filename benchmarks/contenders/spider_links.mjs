// spider-rs: one Website a seed, all at once. With a file to write to: URL, status, headers, links and HTML of each page as JSON.
//
// spider_links.mjs SEEDS PAGES DELAY OUT (seeds with commas between, 0 for all pages, seconds, "" for no file)
import { createWriteStream } from 'node:fs'
import { Website } from '@spider-rs/spider-rs'

const [seeds, pages, delay, out] = process.argv.slice(2)
const file = out ? createWriteStream(out) : null
const write = file && ((error, page) => file.write(JSON.stringify(page) + '\n'))
await Promise.all(seeds.split(',').map(seed => {
  const website = new Website(seed).withRespectRobotsTxt(true).withDelay(1000 * delay)
  if (out) website.withReturnPageLinks(true)
  if (pages !== '0') website.withBudget({ '*': Number(pages) })
  return website.build().crawl(write ?? undefined)
}))
file?.end()
