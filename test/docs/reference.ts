/** Writes `docs/reference/cli*.md`, `config.md`, and `metrics.md` from the definitions: `bun run docs`. A test fails when they are stale. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { createProgram } from '../../src/cli/program.ts'
import { toVariableName } from '../../src/config.ts'
import { capitalize } from '../../src/domain/text.ts'
import { SETTING_GROUPS, SETTINGS, type SettingDefinition } from '../../src/settings.ts'
import { COUNTED, type Counted, DEFINITIONS } from '../../src/telemetry/definitions.ts'

const NOTE = '<!-- Written by `bun run docs`. Change the definitions in src, not this file. -->'

/** What the program needs of its surroundings to describe itself. */
const io = {
  stdout() {},
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
  cwd: '/',
}

export const loadProgram = () => createProgram(io)

/** Text in a cell: a pipe ends it, and angle brackets would be HTML. */
const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('<', '\\<')
const code = (text: string) => `\`${text.replaceAll('|', '\\|')}\``

function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

/** Those of `serve` have a page of their own. */
const SETTING_NAMES: ReadonlySet<string> = new Set(Object.values(SETTINGS).map(({ name }) => name))

/** Its name with those of the commands that it belongs to. */
const pathOf = (command: Command): string => (command.parent ? `${pathOf(command.parent)} ` : '') + command.name()

function toSection(command: Command): string[] {
  const help = command.createHelp()
  const commands = help.visibleCommands(command).filter((one) => one.name() !== 'help')
  const options = help.visibleOptions(command).filter(({ long }) => long !== '--help')
  const words = command.registeredArguments.map((argument) => {
    const name = argument.variadic ? `${argument.name()}...` : argument.name()
    return [argument.required ? `<${name}>` : `[${name}]`, argument.description] as const
  })
  // A group whose commands say everything is a heading.
  const isGroup = commands.length > 0 && words.length === 0 && options.length === 0
  const usage = [pathOf(command), ...words.map(([word]) => word), options.length > 0 && '[options]'].filter(Boolean)
  const listed = options.filter(
    (option) => command.name() !== 'serve' || !SETTING_NAMES.has(option.name().replace(/^no-/, '')),
  )
  const terms = [...words, ...listed.map(({ flags, description }) => [flags, description] as const)]
  const rows = terms.filter(([, text]) => text !== '').map(([term, text]) => [code(term), cell(text)])
  return [
    `${isGroup ? '##' : command.parent?.parent ? '###' : '##'} ${pathOf(command)}`,
    `${capitalize(cell(command.description()))}.`,
    ...(isGroup ? [] : [`\`\`\`text\n${usage.join(' ')}\n\`\`\``]),
    ...(rows.length > 0 ? [toTable(['Option', 'Description'], rows)] : []),
    ...(listed.length < options.length ? ['It also takes every [setting](config.md) as a flag.'] : []),
    ...commands.flatMap(toSection),
  ]
}

/** Commands with a page of their own; the others are in `cli.md`. */
const CLI_PAGES = {
  'cli-keys.md': { title: 'Commands for keys, teams, and users', commands: ['keys', 'teams', 'admin'] },
  'cli-models.md': {
    title: 'Commands for models and upstreams',
    commands: ['models', 'upstreams', 'engines', 'catalog'],
  },
  'cli-server.md': {
    title: 'Commands for the server, its data, and its version',
    commands: [
      ...[
        'serve',
        'service',
        'restart',
        'reload',
        'cluster',
        'status',
        'doctor',
        'backup',
        'restore',
        'secret',
        'ledger',
        'compact',
      ],
      ...['upgrade', 'rollback', 'update', 'version'],
    ],
  },
} as const

const pageOf = (command: Command) =>
  Object.entries(CLI_PAGES).find(([, { commands }]) => commands.some((name) => name === command.name()))?.[0]

async function listCommands(): Promise<Command[]> {
  const program = await loadProgram()
  const commands = program.createHelp().visibleCommands(program)
  return commands.filter((one) => one.name() !== 'help')
}

async function toCliReference(): Promise<string> {
  const program = await loadProgram()
  const options = program
    .createHelp()
    .visibleOptions(program)
    .map(({ flags, description }) => [code(flags), cell(description)])
  const commands = await listCommands()
  const list = commands.map((one) => [
    `[${one.name()}](${pageOf(one) ?? ''}#tollgate-${one.name()})`,
    cell(one.description()),
  ])
  return `${[
    '# Commands',
    NOTE,
    'Every command takes these options:',
    toTable(['Option', 'Description'], options),
    toTable(['Command', 'Description'], list),
    ...commands.filter((one) => pageOf(one) === undefined).flatMap(toSection),
  ].join('\n\n')}\n`
}

async function toCliPage(name: keyof typeof CLI_PAGES): Promise<string> {
  const commands = (await listCommands()).filter((one) => pageOf(one) === name)
  return `${[
    `# ${CLI_PAGES[name].title}`,
    NOTE,
    '[Commands](cli.md) lists all commands and their common options.',
    ...commands.flatMap(toSection),
  ].join('\n\n')}\n`
}

function toSettingRow({ name, argument, byDefault, description, isList, ...setting }: SettingDefinition<unknown>) {
  const isOff = argument === null && byDefault === 'on'
  const flag = argument === null ? `--${isOff ? 'no-' : ''}${name}` : `--${name} ${argument}`
  const text = `${description}${isList ? ' (repeatable)' : ''}`
  return [code(flag), code(toVariableName(name)), cell(setting.defaultText ?? byDefault ?? 'none'), cell(text)]
}

/** Variables that are no setting of `serve`. */
const VARIABLES = [
  ['OTEL_EXPORTER_OTLP_HEADERS', 'Headers for the collector of `--otlp`'],
  ['OTEL_SERVICE_NAME', '`service.name` of traces (default `tollgate`)'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'Further attributes of this server in traces'],
  ['TOLLGATE_DATA', 'Data folder, for every command (default `./tollgate_data`)'],
  ['TOLLGATE_CATALOG', 'Catalog file, like `--catalog`'],
  ['TOLLGATE_UPDATE_URL', 'URL of `latest.json` for `tollgate update`'],
  ['TOLLGATE_KEY', 'API key for `tollgate ask`'],
  ['TOLLGATE_FIRST_KEY', '`1` is `--first-key`'],
  ['TOLLGATE_SECRET', 'Encryption key for stored credentials, in place of the file in the data folder'],
  ['TOLLGATE_SECRET_PREVIOUS', 'Encryption key that stored credentials may still be encrypted with'],
  ['TOLLGATE_OIDC_CLIENT_SECRET', 'Client secret for single sign-on'],
  ['TOLLGATE_FACTS', 'Model facts to use in place of the built-in ones'],
] as const

export function toConfigReference(): string {
  const settings: readonly SettingDefinition<unknown>[] = Object.values(SETTINGS)
  const groups = SETTING_GROUPS.flatMap((group) => [
    `## ${group}`,
    toTable(
      ['Flag', 'Environment variable', 'Default', 'Description'],
      settings.filter((one) => one.group === group).map(toSettingRow),
    ),
  ])
  return `${[
    '# Settings of tollgate serve',
    NOTE,
    'A flag overrides its environment variable. The variable overrides the value set in the dashboard or with the admin API, which overrides the default. `tollgate serve --help` lists the same settings.',
    'Times have a unit: `30s`, `2m`, `24h`, `90d`. So do sizes: `512M`, `1G`.',
    ...groups,
    '## Other environment variables',
    toTable(
      ['Variable', 'Description'],
      VARIABLES.map(([name, text]) => [code(name), text]),
    ),
  ].join('\n\n')}\n`
}

function toMetricsReference(): string {
  const rows = DEFINITIONS.map((one) => {
    const labels = Array.isArray(one.labels) ? one.labels : Object.keys(one.labels)
    const owner = 'owner' in one && one.owner !== null ? [one.owner] : []
    return [code(one.name), one.type, [...owner, ...labels].map(code).join(', '), cell(one.help)]
  })
  const counters: readonly Counted[] = Object.values(COUNTED)
  const values = counters.flatMap(({ name, labels }) =>
    Object.entries(labels).map(([label, all]) => [code(name), code(label), all.map(code).join(', ')]),
  )
  return `${[
    '# Metrics',
    NOTE,
    '[Monitoring](../monitoring.md) explains how to scrape them. Histograms have the usual `_bucket`, `_sum`, and `_count`.',
    toTable(['Metric', 'Type', 'Labels', 'Description'], rows),
    '## Values of labels',
    toTable(['Metric', 'Label', 'Values'], values),
  ].join('\n\n')}\n`
}

export const WRITTEN = {
  'cli.md': toCliReference,
  'cli-keys.md': () => toCliPage('cli-keys.md'),
  'cli-models.md': () => toCliPage('cli-models.md'),
  'cli-server.md': () => toCliPage('cli-server.md'),
  'config.md': async () => toConfigReference(),
  'metrics.md': async () => toMetricsReference(),
} as const

if (import.meta.main)
  for (const [name, write] of Object.entries(WRITTEN))
    writeFileSync(join(import.meta.dir, '../../docs/reference', name), await write())
