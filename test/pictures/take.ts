/**
 * Takes pictures of the dashboard with two made-up months of data (`month.ts`), light and dark: those in the docs, or of given pages, at
 * desktop and phone width.
 *
 *     bun test/pictures/take.ts                       docs/overview-light.png, docs/keys-dark.png …
 *     bun test/pictures/take.ts FOLDER / /keys …      these pages, into FOLDER
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { startBrowsing } from '../browser/browsing.ts'
import { writeMonth } from './month.ts'

const DOCS = join(import.meta.dir, '../../docs')
/** Once all of it is there: charts are drawn, what moves has come to rest. */
const SETTLED_MS = 800

const LOOKS = [
  ['light', { colours: 'light' }],
  ['dark', { colours: 'dark' }],
  ['phone-light', { colours: 'light', width: 390 }],
  ['phone-dark', { colours: 'dark', width: 390 }],
] as const

const toName = (path: string) =>
  path
    .replaceAll(/[^a-z0-9]+/gi, ' ')
    .trim()
    .replaceAll(' ', '-') || 'overview'

const [folder, ...paths] = Bun.argv.slice(2)
// Something answers where the upstreams are: they are ready.
const upstream = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({ object: 'list', data: [] }) })
const browsing = await startBrowsing(
  [],
  { environment: { OPENAI_API_KEY: 'none', ANTHROPIC_API_KEY: 'none' } },
  (data) => writeMonth(data, Date.now(), `http://127.0.0.1:${upstream.port}/v1`),
)

/** Path of the newest streamed request to a hosted model. */
async function findRequest(): Promise<string> {
  const { stdout } = await browsing.place.run('requests', 'list', '--model', 'anthropic/*', '--status', 'ok', '--json')
  return `/requests/${JSON.parse(stdout).requests[0].id}`
}

try {
  const first = await browsing.visit()
  await browsing.setUp(first, 'ann', 'Overview')
  const state = await first.context.storageState()
  await first.close()
  mkdirSync(folder ?? DOCS, { recursive: true })
  const wanted =
    folder === undefined
      ? [
          { path: '/?range=30d', isWhole: false, name: 'overview' },
          { path: '/keys', isWhole: false, name: 'keys' },
          { path: '/models', isWhole: false, name: 'models' },
          { path: await findRequest(), isWhole: false, name: 'request' },
        ]
      : paths.map((path) => ({ path, isWhole: true, name: toName(path) }))
  for (const [look, options] of folder === undefined ? LOOKS.slice(0, 2) : LOOKS) {
    const visit = await browsing.visit({ ...options, state })
    for (const { path, isWhole, name } of wanted) {
      const into = join(folder ?? DOCS, `${name}-${look}.png`)
      await visit.page.goto(`${browsing.origin}/admin${path}`)
      await visit.page.getByRole('heading', { level: 1 }).waitFor()
      await visit.page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
      await visit.page.waitForTimeout(SETTLED_MS)
      await visit.page.screenshot({ path: into, fullPage: isWhole })
      console.log(into, `${Math.round(Bun.file(into).size / 1_000)} kB`)
    }
    await visit.close()
  }
} finally {
  await browsing.close()
  await upstream.stop(true)
}
