/**
 * Writes the tables of the reference that say what of Messages and Responses goes on as it came: for every field and tool that the
 * official client libraries' types have, what the code does with it. `bun test/sdk-fields.ts` writes them into the reference and names
 * what has changed; a test compares them.
 */
import { join } from 'node:path'
import { GatewayError } from '../src/domain/error.ts'
import { isRouting, type RefusalReason } from '../src/domain/fields.ts'
import { messages } from '../src/formats/messages/messages.ts'
import { responses } from '../src/formats/responses/responses.ts'
import { findPassthroughRestricted, findRestricted, PASSED_LISTS } from '../src/routing/restricted-fields.ts'
import { openSdkTypes, type SdkTypes } from './support/sdk-types.ts'

const REFERENCE = join(import.meta.dir, '../src/REFERENCE.md')

type Format = keyof typeof PASSED_LISTS
type Way = 'passes' | 'kept' | 'searches' | 'tool' | 'left out' | 'never' | 'header' | RefusalReason

/** What each way is called, in the order of the tables. */
const WAYS: Readonly<Record<Way, string>> = {
  passes: 'goes on',
  dear: 'goes on where its price is known, else the request is written anew without it',
  kept: 'goes on where its price is known, else refused (400)',
  searches: 'goes on where the model searches and its price is known, else left out',
  unknown: 'the request is written anew without it',
  fee: 'the request is written anew without it',
  tool: 'left out',
  'left out': 'left out',
  header: 'headers: of them only `betas` go on',
  stored: 'refused (400): it names what is stored with the provider',
  later: 'refused (400): its answer would have to be kept',
  account: "refused (400): it chooses an account of the provider's, or what that may do",
  never: 'refused (400), whatever the upstream and `pass`',
}

/** Parameters that the client libraries send as headers. */
const HEADERS: ReadonlySet<string> = new Set(['betas', 'user_profile_id', 'workspace_id'])

/** No number, and no word either: a value that goes on by its name alone. */
const VALUE = 'Msg_1'

const doubtsOf = (endpoint: Format, json: Record<string, unknown>) =>
  findPassthroughRestricted({ endpoint, text: '', headers: {}, json })

/** In an item of the conversation. */
function wayWithin(format: Format, fields: Record<string, unknown>): Way {
  const item = { type: 'text', role: 'user', ...fields }
  const doubts = doubtsOf(format, format === 'messages' ? { messages: [{ content: [item] }] } : { input: [item] })
  return (doubts.find(({ reason }) => reason === 'stored') ?? doubts[0])?.reason ?? 'passes'
}

function wayOfField(format: Format, name: string): Way {
  if (HEADERS.has(name)) return 'header'
  const said = format === 'messages' ? { max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] } : { input: 'Hi' }
  const body = { model: 'm', ...said, [name]: VALUE }
  const task = { messages, responses }[format].toTask(body, { text: JSON.stringify(body), headers: {} })
  const isRefused = task instanceof GatewayError
  if (format === 'messages' && isRefused && task.param === name && /not supported/.test(task.message)) return 'never'
  const [doubt] = doubtsOf(format, { [name]: VALUE })
  if (doubt?.reason === 'dear' && !isRefused && findRestricted(task.body).some((kept) => kept.name === name))
    return 'kept'
  if (doubt) return doubt.reason
  return PASSED_LISTS[format].fields.split(' ').includes(name) || !isRouting(name) ? 'passes' : 'left out'
}

function wayOfTool(format: Format, type: string): Way {
  const [doubt] = doubtsOf(format, { tools: [{ type, name: 't' }] })
  if (!doubt) return 'passes'
  return doubt.price ? 'searches' : 'tool'
}

/** The tables, by what the types have and by what the code does with it. */
export async function toTables(types: SdkTypes): Promise<string> {
  const tables: string[] = []
  for (const [format, title] of [
    ['messages', 'Messages'],
    ['responses', 'Responses'],
  ] as const) {
    const { fields, within, types: words } = await types.reach(format)
    const tools = [...(await types.reach(`${format}Tools`)).types].flatMap(([type, at]) =>
      at.includes('tool') ? type : [],
    )
    const lists = PASSED_LISTS[format]
    const held = (name: string) => wayWithin(format, { [name]: VALUE })
    const heldType = (type: string) => wayWithin(format, { type })
    tables.push(
      toTable(`field of ${title}`, [...fields, ...lists.fields.split(' ')], (name) => wayOfField(format, name)),
      toTable(`tool of ${title}`, [...tools, ...lists.tools.split(' ')], (type) => wayOfTool(format, type)),
      toTable(
        `field within, of ${title}`,
        [...within.keys()].filter((name) => name !== 'type' && held(name) !== 'passes'),
        held,
      ),
      toTable(
        `other \`type\` of ${title}`,
        [...words.keys()].filter((type) => !tools.includes(type) && heldType(type) !== 'passes'),
        heldType,
      ),
    )
  }
  return tables.join('\n\n')
}

function toTable(title: string, names: string[], wayOf: (name: string) => Way): string {
  const byText = new Map<string, string[]>(Object.values(WAYS).map((text) => [text, []]))
  for (const name of [...new Set(names)].sort()) byText.get(WAYS[wayOf(name)])?.push(`\`${name}\``)
  const rows = [...byText].flatMap(([text, all]) => (all.length > 0 ? [[all.join(', '), text]] : []))
  const widths = [0, 1].map((at) => Math.max(...[[title, ''], ...rows].map((row) => row[at]?.length ?? 0), 3))
  const line = (cells: string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`
  return [line([title, '']), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

const BEGIN = '<!-- What goes on as it came: written by test/sdk-fields.ts -->\n\n'
const END = '\n\n<!-- until here -->'

/** The tables as they stand in the reference. */
export async function readTables(): Promise<string> {
  const text = await Bun.file(REFERENCE).text()
  return text.slice(text.indexOf(BEGIN) + BEGIN.length, text.indexOf(END))
}

if (import.meta.main) {
  const types = await openSdkTypes()
  const tables = await toTables(types)
  await types.close()
  const before = await readTables()
  const text = await Bun.file(REFERENCE).text()
  await Bun.write(
    REFERENCE,
    text.replace(before, () => tables),
  )
  const names = (of: string) => new Set(of.match(/`\w+`/g))
  const added = names(tables).difference(names(before))
  console.log(added.size === 0 ? 'The tables have no new name.' : `New: ${[...added].join(', ')}`)
}
