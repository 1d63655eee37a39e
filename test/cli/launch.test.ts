/** `tollgate launch`: settings of the started program, and the end of its key. */
import { beforeEach, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { runProgramAs } from '../../src/cli/launch.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests, forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

interface MadeKey {
  id: string
  name: string
  last_four: string
  status: string
}

const gateway = forAllTests(startGateway)
const bench = forEachTest(createBench)
beforeEach(async () => {
  await newKeys()
})

const launch = (...argv: string[]) => bench.run('launch', '--data', gateway.app.dataFolder, ...argv)
const allKeys = async (): Promise<MadeKey[]> =>
  JSON.parse((await bench.run('keys', 'list', '--data', gateway.app.dataFolder, '--all', '--json')).stdout).keys
/** Keys created since the last call. */
const known = new Set<string>()
const newKeys = async () => {
  const made = (await allKeys()).filter(({ id }) => !known.has(id))
  for (const { id } of made) known.add(id)
  return made
}
const started = () => bench.programs.ran.at(-1)

test('an agent gets the URL, a model, and its own key, which is revoked when it exits', async () => {
  bench.environment = { ANTHROPIC_API_KEY: 'sk-ant-another', CLAUDE_CODE_USE_FOUNDRY: '1', HOME: '/home/ann' }
  bench.programs.code = 3
  const ran = await launch('claude', '--model', 'acme/large', '--budget', '5/day', '--', '-p', 'Hello')
  expect(ran).toEqual({ code: 3, stdout: '', stderr: '' })
  const environment = started()?.environment as Record<string, string>
  expect(started()).toMatchObject({ command: 'claude', args: ['-p', 'Hello'] })
  expect(environment).toMatchObject({
    ANTHROPIC_BASE_URL: gateway.app.origin,
    ANTHROPIC_MODEL: 'acme/large',
    CLAUDE_CODE_AUTO_COMPACT_WINDOW: '8192',
    HOME: '/home/ann',
  })
  expect(environment).not.toHaveProperty('ANTHROPIC_API_KEY')
  expect(environment).not.toHaveProperty('CLAUDE_CODE_USE_FOUNDRY')
  const [made] = await newKeys()
  expect(made).toMatchObject({ status: 'revoked', budget_nano_usd: 5_000_000_000, budget_period: 'day' })
  expect(made?.name).toMatch(/^claude [0-9a-f]{8}$/)
  expect(environment.ANTHROPIC_AUTH_TOKEN).toEndWith(made?.last_four ?? '?')
})

test('--print prints the same for a shell, and keeps the key', async () => {
  const { code, stdout, stderr } = await launch('codex', '--model', 'acme/large', '--print', '--', 'exec', "it's on")
  expect(code).toBe(0)
  const [made] = await newKeys()
  expect(made?.status).toBe('active')
  expect(stderr).toBe(`The key stays active until revoked: tollgate keys revoke ${made?.id}\n`)
  expect(stdout).toMatch(
    /^export TOLLGATE_API_KEY=sk-tg-\w{38}\ncodex -c 'model="acme\/large"' -c model_context_window=8192 /,
  )
  expect(stdout).toContain(`'model_providers.tollgate.base_url="${gateway.app.baseUrl}"'`)
  expect(stdout).toEndWith(` exec 'it'\\''s on'\n`)
  expect(bench.programs.ran).toEqual([])
})

test('with an existing key, none is created', async () => {
  const key = gateway.app.key()
  await launch('aider', '--model', 'fast', '--key', key)
  expect(started()).toMatchObject({
    args: ['--model', 'openai/fast'],
    environment: { OPENAI_API_BASE: gateway.app.baseUrl, OPENAI_API_KEY: key },
  })
  expect(await newKeys()).toHaveLength(1)
})

test('gemini gets a URL, a key, a model, and settings that name how to sign in', async () => {
  await launch('gemini', '--model', 'acme/large', '--', '-p', 'Hello')
  const environment = started()?.environment as Record<string, string>
  expect(environment).toMatchObject({
    ...{ GOOGLE_GEMINI_BASE_URL: gateway.app.origin, GEMINI_MODEL: 'acme/large' },
    GEMINI_API_KEY: expect.stringMatching(/^sk-tg-/),
  })
  const file = readFileSync(join(environment.GEMINI_CLI_HOME ?? '', '.gemini/settings.json'), 'utf8')
  expect(JSON.parse(file)).toEqual({ security: { auth: { selectedType: 'gemini-api-key' } } })
})

test('llm reads its models from a separate folder', async () => {
  await launch('llm', '--model', 'acme/large', '--', 'Hello')
  const environment = started()?.environment as Record<string, string>
  const file = readFileSync(join(environment.LLM_USER_PATH ?? '', 'extra-openai-models.yaml'), 'utf8')
  expect(JSON.parse(file)).toMatchObject([
    // For a model with a URL, it only sends a key if the key has a name.
    { model_id: 'acme/large', api_base: gateway.app.baseUrl, api_key_name: 'openai' },
  ])
  expect(file).not.toContain('sk-tg-')
})

test.each([
  [['claude'], 2, 'Choose a model: --model a/b, --model acme/large, '],
  [['claude', '--model', 'acme/lagre'], 1, 'model not found: `acme/lagre`. Did you mean `acme/large`?'],
  [['emacs'], 2, "'emacs' is invalid for argument 'agent'. Allowed choices are claude, codex"],
  [['claude', '--model', 'acme/large', '--budget', 'much'], 2, '--budget must be an amount in USD'],
  [['claude', '--url', 'http://127.0.0.1:1'], 2, '--url requires a key'],
])('%j is refused with what to do', async (argv, code, message) => {
  const ran = await launch(...argv)
  expect({ code: ran.code, ran: bench.programs.ran }).toEqual({ code, ran: [] })
  expect(ran.stderr).toContain(message)
  expect(await newKeys()).toEqual([])
})

test('an agent that is not installed leaves no active key, and the error says how to install it', async () => {
  bench.programs.code = null
  const { code, stderr } = await launch('claude', '--model', 'acme/large')
  expect(code).toBe(1)
  expect(stderr).toContain('`claude` is not on the PATH. Install it: npm install -g @anthropic-ai/claude-code')
  expect(await newKeys()).toMatchObject([{ status: 'revoked' }])
})

test("a program's exit code is kept, or that of the signal that ended it", async () => {
  const { PATH } = process.env
  expect(await runProgramAs('sh', ['-c', 'exit 7'], { PATH })).toBe(7)
  expect(await runProgramAs('sh', ['-c', 'kill -TERM $$'], { PATH })).toBe(143)
  expect(await runProgramAs('no-such-program', [], { PATH })).toBeNull()
})
