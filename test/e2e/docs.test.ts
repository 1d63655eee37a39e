/**
 * The commands of the documentation, run as they are written: each page in a folder of its own, in order, with a server on the default
 * port of that page and `tollgate` on the PATH. Blocks that need more than that say `sh skip`, and are only read (`test/docs`).
 */
import { describe, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { BINARY, createWorkplace } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'

const ROOT = resolve(import.meta.dir, '../..')
const PAGES = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`),
]
  .filter((name) => name.endsWith('.md'))
  .toSorted()

const blocksOf = (page: string) =>
  [...readFileSync(join(ROOT, page), 'utf8').matchAll(/^```(sh|ts)\n(.*?)^```/gms)].map(([, language, text]) => ({
    language: String(language),
    text: String(text),
  }))

const place = forEachTest(createWorkplace)

describe.each(PAGES.filter((page) => blocksOf(page).length > 0))('%s', (page) => {
  test('has commands that work', async () => {
    const server = await place.serve(['--first-key'])
    const bin = join(place.folder, 'bin')
    mkdirSync(bin)
    symlinkSync(BINARY, join(bin, 'tollgate'))
    symlinkSync(join(ROOT, 'node_modules'), join(place.folder, 'node_modules'))
    const env = {
      PATH: `${bin}:${process.env.PATH}`,
      HOME: place.folder,
      TOLLGATE_DATA: join(place.folder, 'data'),
      TOLLGATE_KEY: String(server.key),
    }
    const address = new URL(server.baseUrl).host
    for (const { language, text } of blocksOf(page)) {
      const here = text.replaceAll('127.0.0.1:4000', address).replaceAll('localhost:4000', address)
      const file = join(place.folder, `block.${language}`)
      await Bun.write(file, here)
      const command = language === 'ts' ? [process.execPath, file] : ['sh', '-e', file]
      const child = Bun.spawn(command, {
        cwd: place.folder,
        env,
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'pipe',
        timeout: 30_000,
      })
      const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
      expect([await child.exited, text, `${stdout}${stderr}`]).toEqual([0, text, expect.any(String)])
    }
  })
})
