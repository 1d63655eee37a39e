/** The READMEs stay true: what they list is what there is. The import table is held by `layers.test.ts`. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { parseCatalog } from '../src/catalog/file.ts'
import { runProgram } from '../src/cli/program.ts'

const ROOT = join(import.meta.dir, '..')
const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
const reference = readFileSync(join(ROOT, 'src/REFERENCE.md'), 'utf8')
const maintainers = readFileSync(join(ROOT, 'src/README.md'), 'utf8')
const testers = readFileSync(join(ROOT, 'test/README.md'), 'utf8')

test.each([
  ['README.md', ROOT, readme],
  ['src/REFERENCE.md', join(ROOT, 'src'), reference],
  ['src/README.md', join(ROOT, 'src'), maintainers],
  ['test/README.md', join(ROOT, 'test'), testers],
])('every file that %s links to exists', (_, folder, text) => {
  const links = [...text.matchAll(/\]\(([^)]+)\)|(?:src|srcset)="([^"]+)"/g)]
    .map(([, to, picture]) => to ?? picture)
    .flatMap((to) => (to && !to.startsWith('http') ? [to] : []))
  expect(links.length).toBeGreaterThan(3)
  expect(links.filter((to) => !existsSync(join(folder, to.replace(/#.*/, ''))))).toEqual([])
})

test('every part of the reference that the README links to is one', () => {
  const parts = [...reference.matchAll(/^## (.+)$/gm)].map(([, title = '']) => title.toLowerCase().replaceAll(' ', '-'))
  const linked = [...readme.matchAll(/REFERENCE\.md#([\w-]+)/g)].map(([, part]) => String(part))
  expect(linked).not.toEqual([])
  expect(linked.filter((part) => !parts.includes(part))).toEqual([])
})

test('every option of `serve`, `keys create` and `usage` is told of', async () => {
  const help: string[] = []
  const io = {
    stderr() {},
    stdoutLeft: async () => true,
    stdin: async () => null,
    ask: async () => null,
    environment: {},
    nowMs: () => 0,
    isTerminal: () => false,
    run: async () => null,
    columns: () => 80,
    giveWay: async () => {},
    cwd: ROOT,
  }
  for (const command of [['serve'], ['keys', 'create'], ['usage']])
    await runProgram([...command, '--help'], { ...io, stdout: (text) => void help.push(text) })
  const options = [...help.join('').matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, option]) => String(option))
  expect(options).toContain('--max-buffered')
  const written = ['cli.md', 'config.md'].map((name) => readFileSync(join(ROOT, 'docs/reference', name), 'utf8'))
  const known = readme + reference + written.join('')
  expect(options.filter((option) => !['--help', '--version'].includes(option) && !known.includes(option))).toEqual([])
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

  test('is valid, and warns of nothing but variables that are not set', async () => {
    const { catalog, warnings } = await parseCatalog(text, { name: 'README.md', environment: {} })
    const written = catalog.models.filter(({ fromWildcard }) => !fromWildcard)
    expect(written.map(({ slug }) => slug)).toEqual(['deepseek/deepseek-chat', 'local/llama3.2'])
    const variables = warnings.map((warning) => /[A-Z_]{8,}/.exec(warning)?.[0])
    expect(variables).toEqual(['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'GEMINI_API_KEY', 'OPENROUTER_API_KEY'])
  })
})

test('nothing that is kept names a registry', () => {
  expect(readFileSync(join(ROOT, 'bun.lock'), 'utf8')).not.toMatch(/https?:/)
})
