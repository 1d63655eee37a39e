/** The keys command as a user meets it. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type Bench, createBench } from './run.ts'

let bench: Bench
beforeEach(() => {
  bench = createBench()
})
afterEach(() => bench.close())

describe('keys create', () => {
  test('prints the key once, alone on its line', async () => {
    const { code, stdout, stderr } = await bench.run('keys', 'create', '--name', 'dev')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^sk-tg-[A-Za-z0-9]{38}\n$/)
    expect(stderr).not.toContain(stdout.trim())
    expect((await bench.run('keys', 'list')).stdout).not.toContain(stdout.trim())
  })

  test('prints one JSON document with --json before or after the command', async () => {
    const created = await bench.run(
      ...['--json', 'keys', 'create', '--name', 'dev', '--model', 'openai/*', '--model', 'a/b', '--scope', 'local'],
      ...['--rpm', '5', '--tpm', '6', '--concurrency', '7', '--budget', '0.10/day', '--expires', '90d'],
    )
    const { key, unmatched, ...rest } = JSON.parse(created.stdout)
    expect(unmatched).toEqual(['openai/*', 'a/b'])
    expect(key).toMatch(/^sk-tg-/)
    const { keys } = JSON.parse((await bench.run('keys', 'list', '--json')).stdout)
    expect(keys).toEqual([{ ...rest, models: expect.arrayContaining(['openai/*', 'a/b']) }])
    expect(rest).toMatchObject({
      name: 'dev',
      team_id: null,
      team: null,
      scope: 'local',
      rpm: 5,
      tpm: 6,
      concurrency: 7,
      budget_nano_usd: 100_000_000,
      budget_period: 'day',
      spent_nano_usd: 0,
      budget_reset_ms: Date.UTC(2026, 10, 22),
      budget_state: 'ok',
      expires_ms: Date.UTC(2027, 1, 19),
      revoked_ms: null,
    })
  })
})

describe('a pattern of --model', () => {
  beforeEach(async () => {
    await Bun.write(
      `${bench.folder}/catalog.yaml`,
      `version: 1
upstreams: { openai: { dialect: openai, base_url: http://h/v1 } }
models: { openai/gpt-4o*: { listed: false, routes: [{ upstream: openai, model: gpt-4o* }] } }
aliases: { fast: openai/gpt-4o }
`,
    )
    expect(await bench.run('catalog', 'apply')).toMatchObject({ code: 0 })
  })

  test.each([
    ['openia/*', /matches none of the \d+ models that there are now \(did you mean 'openai\/\*'\?\)\./],
    ['openai/gpt-4o-mni', /did you mean 'openai\/gpt-4o-mini'/],
    ['fast', /it is an alias, and patterns are compared with the name of its model, openai\/gpt-4o\./],
  ])('%s that allows nothing is warned of, and the key made all the same', async (pattern, sentence) => {
    const { code, stdout, stderr } = await bench.run('keys', 'create', '--name', 'x', '--model', pattern)
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^sk-tg-/)])
    expect(stderr).toStartWith(`warning: --model '${pattern}' `)
    expect(stderr).toMatch(sentence)
  })

  test('that allows what nobody lists is none to warn of, but for a key of local scope', async () => {
    const create = ['keys', 'create', '--name', 'x', '--model', 'openai/*']
    expect((await bench.run(...create)).stderr).not.toContain('warning')
    expect((await bench.run(...create, '--scope', 'local')).stderr).toContain('matches no model with a local upstream')
    expect(JSON.parse((await bench.run(...create, '--json')).stdout).unmatched).toEqual([])
  })
})

describe('keys revoke', () => {
  test('leaves the key in the list, and may be said twice', async () => {
    const { id } = JSON.parse((await bench.run('keys', 'create', '--name', 'dev', '--json')).stdout)
    expect((await bench.run('keys', 'revoke', id)).stdout).toContain('is revoked.')
    expect((await bench.run('keys', 'revoke', id)).stdout).toContain('was revoked already.')
    expect((await bench.run('keys', 'list')).stdout).toMatch(/dev .* revoked\n$/)
  })
})

describe('wrong words', () => {
  const scenarios: [string, string[], number, RegExp][] = [
    ['an unknown command', ['kyes'], 2, /unknown command 'kyes'.*Did you mean keys/],
    ['an unknown subcommand', ['keys', 'drop'], 2, /unknown command 'drop'/],
    ['an unknown option', ['keys', 'create', '--nam', 'x'], 2, /unknown option '--nam'.*Did you mean --name/],
    ['a missing name', ['keys', 'create'], 2, /--name is missing/],
    ['a missing argument', ['keys', 'revoke'], 2, /missing required argument 'id'/],
    ['an argument too many', ['keys', 'list', 'all'], 2, /too many arguments/],
    ['a wrong count', ['keys', 'create', '--name', 'x', '--rpm', '0'], 2, /--rpm '0' is no count/],
    ['a wrong scope', ['keys', 'create', '--name', 'x', '--scope', 'some'], 2, /--scope 'some' is unknown/],
    ['a count too large', ['keys', 'create', '--name', 'x', '--tpm', '10000000000'], 2, /--tpm .* too large/],
    ['an unknown team', ['keys', 'create', '--name', 'x', '--team', 'Red'], 1, /no team 'Red'.*tollgate teams list/],
    ['an unknown key', ['keys', 'revoke', 'x'], 1, /There is no key 'x'.*tollgate keys list/],
    [
      'a folder without a database',
      ['keys', 'list', '--data', 'nowhere'],
      1,
      /There is no Tollgate database.*tollgate serve/,
    ],
  ]
  for (const [name, argv, code, sentence] of scenarios) {
    test(`are told: ${name}`, async () => {
      const plain = await bench.run(...argv)
      expect(plain).toMatchObject({ code, stdout: '' })
      expect(plain.stderr).toMatch(/^error: [^\n]+\n$/)
      expect(plain.stderr).toMatch(sentence)
      const { error } = JSON.parse((await bench.run(...argv, '--json')).stderr)
      expect(error).toEqual({ kind: expect.any(String), message: expect.stringMatching(sentence) })
    })
  }

  test('are answered with help where nothing was asked for', async () => {
    expect(await bench.run()).toMatchObject({ code: 2, stdout: '' })
    expect((await bench.run('--help')).stdout).toContain('Usage: tollgate')
  })
})
