/** Help with examples that work, and shell completion. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { Command } from 'commander'
import { createProgram } from '../../src/cli/program.ts'
import { type Bench, createBench } from './run.ts'

const silent = {
  stdout() {},
  stderr() {},
  stdoutLeft: async () => true,
  stdin: async () => null,
  ask: async () => null,
  isTerminal: () => false,
  run: async () => null,
  columns: () => 80,
  giveWay: async () => {},
  environment: {},
  nowMs: () => 0,
  cwd: '/',
}

/** The example lines in a command's help, without the program's name. */
function examplesOf(command: Command): string[] {
  const help: string[] = []
  command.configureOutput({ writeOut: (text) => help.push(text) }).outputHelp()
  return [...help.join('').matchAll(/^ {2}tollgate (.*)$/gm)].map(([, line = '']) => line)
}

/** Every command with an action, by its words. */
function leavesOf(program: Command, words: readonly string[] = []): Map<string, Command> {
  const found = program.commands.flatMap((command) => {
    const name = [...words, command.name()]
    // `audit` has an action, as do the commands below it.
    const isLeaf = command.commands.length === 0 || examplesOf(command).length > 0
    const own = isLeaf ? [[name.join(' '), command] as const] : []
    return [...own, ...leavesOf(command, name)]
  })
  return new Map(found.filter(([name]) => name !== 'complete'))
}

/** Splits a line like a shell, up to a redirection or pipe. */
const toWords = (line: string) =>
  [...line.replace(/ [<>|].*$/, '').matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare ?? '',
  )

const EXAMPLES = [...leavesOf(await createProgram(silent))].map(
  ([name, command]) => [name, examplesOf(command)] as const,
)

describe('examples', () => {
  test('are in the help of every command: two lines for that command', async () => {
    const leaves = leavesOf(await createProgram(silent))
    expect(leaves.size).toBeGreaterThan(50)
    for (const [name, command] of leaves) {
      const lines = examplesOf(command)
      expect(lines).toHaveLength(2)
      for (const line of lines) expect(line).toStartWith(name)
    }
  })

  test.each(EXAMPLES)('of %s are valid', async (name, lines) => {
    for (const line of lines) {
      const program = await createProgram(silent)
      const command = leavesOf(program).get(name)
      let runs = 0
      command?.action(() => void runs++)
      await program.parseAsync(toWords(line), { from: 'user' })
      expect(runs).toBe(1)
    }
  })
})

describe('a shell', () => {
  let bench: Bench
  beforeEach(() => {
    bench = createBench()
  })
  afterEach(() => bench.close())

  const complete = async (...words: string[]) =>
    (await bench.run('complete', '--', ...words)).stdout.split('\n').map((line) => line.split('\t')[0] ?? '')

  test('completes commands, subcommands, and options anywhere', async () => {
    expect(await complete('')).toContain('serve')
    expect(await complete('')).not.toContain('complete')
    expect(await complete('key')).toEqual(['keys', ''])
    expect(await complete('keys', 'rev')).toEqual(['revoke', ''])
    expect(await complete('keys', 'create', '--b')).toEqual(['--budget', ''])
    expect(await complete('keys', 'create', '--name', 'dev', '--js')).toEqual(['--json', ''])
    expect(await complete('--data', 'keys', 'ke')).toEqual(['keys', ''])
  })

  test('completes files for a value, and for unknown input', async () => {
    expect(await complete('serve', '--catalog', '')).toEqual([''])
    expect(await complete('catalog', 'apply', '')).toEqual([''])
    expect(await complete('no', 'such')).toEqual([''])
  })

  test.each(['bash', 'zsh', 'fish'])('named %s has a script, which evaluates no typed text', async (shell) => {
    const { code, stdout } = await bench.run('completions', shell)
    expect(code).toBe(0)
    expect(stdout).toContain('tollgate complete -- ')
    expect(stdout).not.toContain('eval')
  })

  test('without support lists the supported ones', async () => {
    expect(await bench.run('completions', 'tcsh')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('bash, zsh, or fish'),
    })
  })

  test('of the Bash kind completes words by its script, whatever they contain', async () => {
    const { stdout: script } = await bench.run('completions', 'bash')
    const typed = ['tollgate', 'keys', '$(touch evil)', 'rev']
    const lines = [
      // Replaces the program of the completion: it prints its arguments.
      `tollgate() { printf '%s\\n' "\${@: -1}oke" "$#"; }`,
      script,
      `COMP_WORDS=(${typed.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=3; _tollgate; printf '%s\\n' "\${COMPREPLY[@]}"`,
    ]
    const child = Bun.spawn(['bash', '-c', lines.join('\n')], { cwd: bench.folder, stdout: 'pipe' })
    expect(await child.stdout.text()).toBe('revoke\n5\n')
    expect(await Bun.file(`${bench.folder}/evil`).exists()).toBe(false)
  })
})

describe('colors', () => {
  let bench: Bench
  beforeEach(() => {
    bench = createBench()
    bench.isWatched = true
  })
  afterEach(() => bench.close())

  const ESCAPE = '\u001b['
  const doctor = async () => (await bench.run('doctor')).stdout

  test('are only for terminals, unless turned off', async () => {
    expect(await doctor()).toContain(ESCAPE)
    expect((await bench.run('keys', 'revoke', 'nobody')).stderr).toStartWith(`${ESCAPE}31merror:`)
    for (const environment of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) {
      bench.environment = environment
      expect(await doctor()).not.toContain(ESCAPE)
    }
    bench.environment = {}
    expect((await bench.run('doctor', '--json')).stdout).not.toContain(ESCAPE)
    bench.isWatched = false
    expect(await doctor()).not.toContain(ESCAPE)
  })

  test("don't change the layout: columns are the same without them", async () => {
    await bench.run('keys', 'create', '--name', 'dev')
    const watched = (await bench.run('keys', 'list')).stdout
    bench.isWatched = false
    expect(watched).toContain(ESCAPE)
    expect(Bun.stripANSI(watched)).toBe((await bench.run('keys', 'list')).stdout)
  })
})

test('`help` before a command prints its help, and rejects an unknown one', async () => {
  const bench = createBench()
  try {
    expect(await bench.run('help', 'keys', 'create')).toEqual(await bench.run('keys', 'create', '--help'))
    expect(await bench.run('help', 'ask', 'anything')).toEqual(await bench.run('ask', '--help'))
    for (const words of [['kyes'], ['keys', 'craete']])
      expect(await bench.run('help', ...words)).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/^error: unknown command '.*' \(Did you mean /),
      })
  } finally {
    await bench.close()
  }
})
