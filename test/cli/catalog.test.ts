/** The catalog command, and which catalog it applies. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(createBench)

const write = (name: string, text: string) => Bun.write(join(bench.folder, name), text)
const VALID = `version: 1
upstreams:
  openai: { dialect: openai, base_url: https://api.openai.com/v1, api_key: \${OPENAI_API_KEY} }
models:
  openai/gpt-4o-mini: { routes: [{ upstream: openai, model: gpt-4o-mini }] }
`

describe('catalog validate', () => {
  test('reports every problem of a file with its line, and fails', async () => {
    await write('mine.yaml', 'version: 1\nupstreams: { a: { dialect: soap } }\nmodels: { x: 5 }\n')
    const { code, stderr } = await bench.run('catalog', 'validate', 'mine.yaml')
    expect(code).toBe(1)
    expect(stderr).toContain('mine.yaml:2: upstreams.a.dialect')
    expect(stderr).toContain('mine.yaml:3: models.x')
    const json = await bench.run('catalog', 'validate', 'mine.yaml', '--json')
    expect(json.code).toBe(1)
    expect(JSON.parse(json.stdout)).toEqual({
      valid: false,
      path: join(bench.folder, 'mine.yaml'),
      problems: [
        {
          line: 2,
          path: 'upstreams.a.dialect',
          message: expect.stringContaining(
            "unknown dialect 'soap'. Use 'openai', 'anthropic', 'gemini', 'ollama', or 'demo'.",
          ),
        },
        { line: 3, path: 'models.x', message: expect.any(String) },
        { line: 3, path: 'models.x', message: expect.any(String) },
      ],
    })
    expect(JSON.parse(json.stderr).error.kind).toBe('catalog_invalid')
  })

  test('warns of a missing variable, and succeeds', async () => {
    await write('mine.yaml', VALID)
    const { code, stdout, stderr } = await bench.run('catalog', 'validate', 'mine.yaml')
    expect([code, stdout]).toEqual([0, expect.stringContaining('1 upstream, 1 model, 0 aliases')])
    expect(stderr).toBe(
      'warning: mine.yaml:3: upstreams.openai: OPENAI_API_KEY is not set here. Until the server has it, this upstream is unavailable.\n',
    )
  })

  test('counts the models of a wildcard instead of naming them', async () => {
    await write('mine.yaml', `${VALID}  openai/*: { routes: [{ upstream: openai, model: "*" }] }\n`)
    const { stdout } = await bench.run('catalog', 'validate', 'mine.yaml')
    const [, all, those] = /1 upstream, (\d+) models \((\d+) of openai\/\*\), 0 aliases\.\n$/.exec(stdout) ?? []
    expect(Number(all)).toBe(Number(those) + 1)
    const json = await bench.run('catalog', 'validate', 'mine.yaml', '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({
      models: Number(all),
      wildcards: [{ wildcard: 'openai/*', models: Number(those) }],
    })
  })

  test('says which file it could not read', async () => {
    expect(await bench.run('catalog', 'validate', 'nope.yaml')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/nope.yaml as the catalog: file not found/),
    })
  })
})

describe('catalog apply', () => {
  const apply = async (...argv: string[]) => JSON.parse((await bench.run('catalog', 'apply', '--json', ...argv)).stdout)

  test('applies the built-in catalog if there is no file, then the file permanently', async () => {
    expect(await apply()).toMatchObject({ origin: 'builtin', path: null, created: 5 })
    await write('mine.yaml', VALID)
    // Never removed automatically: not even the demo model.
    expect(await apply('mine.yaml')).toMatchObject({ origin: 'file', created: 3, deleted: 0, kept: { length: 5 } })
    expect(await apply('mine.yaml', '--prune')).toMatchObject({ deleted: 5, kept: [] })
    expect(await bench.run('catalog', 'apply')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('pass it with --catalog FILE'),
    })
  })

  test('finds the data folder’s catalog automatically, and says if there are no changes', async () => {
    await write('catalog.yaml', VALID)
    expect(await apply()).toMatchObject({ path: join(bench.folder, 'catalog.yaml'), created: 3 })
    expect((await bench.run('catalog', 'apply')).stdout).toContain('no changes')
  })
})
