/** The READMEs stay true: what they list is what there is. The import table is held by `layers.test.ts`. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { parseCatalog } from '../src/catalog/file.ts'

const ROOT = join(import.meta.dir, '..')
const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
const maintainers = readFileSync(join(ROOT, 'src/README.md'), 'utf8')
const testers = readFileSync(join(ROOT, 'test/README.md'), 'utf8')

test.each([
  ['README.md', ROOT, readme],
  ['src/README.md', join(ROOT, 'src'), maintainers],
  ['test/README.md', join(ROOT, 'test'), testers],
])('every file that %s links to exists', (_, folder, text) => {
  const links = [...text.matchAll(/\]\(([^)]+)\)/g)].flatMap(([, to]) => (to && !to.startsWith('http') ? [to] : []))
  expect(links.length).toBeGreaterThan(4)
  expect(links.filter((to) => !existsSync(join(folder, to)))).toEqual([])
})

test('every dependency is listed, in its version', () => {
  const listed = [...readme.matchAll(/^\| `([^`]+)` +\| ([\d.]+) +\|/gm)].map(([, name, version]) => [name, version])
  const { dependencies, devDependencies } = manifest
  expect(Object.fromEntries(listed)).toEqual({ ...dependencies, ...devDependencies })
})

test('every script that it names is one', () => {
  const named = [...(readme + testers).matchAll(/\bbun(?:@1\.4\.5)? run ([\w:]+)/g)].map(([, name]) => String(name))
  const known = Object.keys(manifest.scripts)
  expect(named.filter((name) => !known.includes(name))).toEqual([])
})

test('the map has every folder and file at the top of src, and nothing else', () => {
  const [, map = ''] = /```\n([\s\S]*?)```/.exec(maintainers) ?? []
  const mapped = [...map.matchAll(/^(\S+?)\/? +\S/gm)].map(([, name]) => String(name))
  const there = readdirSync(join(ROOT, 'src')).filter((name) => !/\.d\.ts$|\.md$/.test(name))
  expect(mapped.sort()).toEqual(there.sort())
})

describe('its catalogue', () => {
  const [, text = ''] = /```yaml\n([\s\S]*?)```/.exec(readme) ?? []

  test('is valid, and warns of nothing but a variable that is not set', async () => {
    const { catalog, warnings } = await parseCatalog(text, { name: 'README.md', environment: {} })
    expect(catalog.models.map(({ slug }) => slug)).toEqual(['openai/gpt-4o-mini', 'local/llama3.2'])
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('OPENAI_API_KEY')
  })
})

test('nothing that is kept names a registry', () => {
  expect(readFileSync(join(ROOT, 'bun.lock'), 'utf8')).not.toMatch(/https?:/)
})
