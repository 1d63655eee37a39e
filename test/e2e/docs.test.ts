/**
 * The commands of the documentation, run as written: each page in its own folder, in order, with a server on the page's
 * default port and `tollgate` on the PATH. `sh provider` needs the catalogs of its page, whose public providers are
 * simulated. Blocks that need more are marked `sh skip`, and are only read (`test/docs`).
 */
import { describe, expect, onTestFinished, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { loadAudio } from '../support/audio-forms.ts'
import { BINARY, createWorkplace } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'
import { PICTURE, startMediaUpstream } from '../support/media-upstream.ts'

const ROOT = resolve(import.meta.dir, '../..')
const PAGES = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`),
]
  .filter((name) => name.endsWith('.md'))
  .toSorted()

const blocksOf = (page: string) =>
  [...readFileSync(join(ROOT, page), 'utf8').matchAll(/^```(sh|ts)( provider)?\n(.*?)^```/gms)].map(
    ([, language, provider, text]) => ({
      language: String(language),
      text: String(text),
      hasProvider: provider !== undefined,
    }),
  )
const catalogsOf = (page: string) =>
  [...readFileSync(join(ROOT, page), 'utf8').matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text]) => String(text))

/** URL of the simulated provider. */
const PROVIDER_KEYS = { OPENAI_API_KEY: 'none', COHERE_API_KEY: 'none' }

const place = forEachTest(createWorkplace)

describe.each(PAGES.filter((page) => blocksOf(page).length > 0))('%s', (page) => {
  test('has commands that work', async () => {
    const server = await place.serve(['--first-key'], { environment: PROVIDER_KEYS })
    if (blocksOf(page).some(({ hasProvider }) => hasProvider)) await standIn(page)
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

/** Applies the catalogs of a page, and creates the files that its commands send. */
async function standIn(page: string): Promise<void> {
  const { url, stop } = startMediaUpstream()
  onTestFinished(stop)
  // A response with an error fails its command.
  await Bun.write(join(place.folder, '.curlrc'), 'fail-with-body\n')
  await Bun.write(join(place.folder, 'speech.mp3'), loadAudio('lame.mp3'))
  await Bun.write(join(place.folder, 'cat.png'), Buffer.from(PICTURE, 'base64'))
  for (const catalog of catalogsOf(page)) {
    const file = await place.write(
      'catalog.yaml',
      catalog.replaceAll(/preset: [\w-]+, api_key/g, (preset) => preset.replace(', ', `, base_url: "${url}", `)),
    )
    expect(await place.run('catalog', 'apply', file)).toMatchObject({ code: 0 })
  }
}
