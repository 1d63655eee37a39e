/**
 * Writes the lists of docs/reference/passthrough.md: what happens to every field and tool of Messages, Responses, and Gemini that the official
 * client libraries' types have. `bun test/sdk-fields.ts` writes them and names what is new; a test compares them.
 */
import { join } from 'node:path'
import { GatewayError } from '../src/domain/error.ts'
import { isRouting, type RefusalReason } from '../src/domain/fields.ts'
import { messages } from '../src/formats/messages/messages.ts'
import { responses } from '../src/formats/responses/responses.ts'
import { findPassthroughRestricted, findRestricted, PASSED_LISTS } from '../src/routing/restricted-fields.ts'
import { openSdkTypes, type SdkTypes } from './support/sdk-types.ts'

const PAGE = join(import.meta.dir, '../docs/reference/passthrough.md')

type Format = keyof typeof PASSED_LISTS
type Way = 'passes' | 'kept' | 'searches' | 'tool' | 'left out' | 'never' | 'header' | 'only' | RefusalReason

/** What each way is called, in the order of the lists. */
const WAYS: Readonly<Record<Way, string>> = {
  passes: 'Passed through',
  dear: 'Passed through if the price is known; otherwise the request is translated without it',
  kept: 'Passed through if the price is known; otherwise rejected (400)',
  searches: 'Passed through if the model can search and the price is known; otherwise dropped',
  unknown: 'The request is translated without it',
  fee: 'The request is translated without it',
  tool: 'Dropped',
  'left out': 'Dropped',
  only: 'Rejected (400), because no other format has it',
  header: 'Headers, of which only `betas` is passed through',
  stored: 'Rejected (400), because it refers to data stored at the provider',
  later: 'Rejected (400), because the response would have to be stored',
  account: 'Rejected (400), because it selects an account at the provider or its permissions',
  never: 'Rejected (400) for every upstream, even with `pass`',
}

/** Parameters that the client libraries send as headers. */
const HEADERS: ReadonlySet<string> = new Set(['betas', 'user_profile_id', 'workspace_id'])

/** No number, and no word either: a value that goes on by its name alone. */
const VALUE = 'Msg_1'

const doubtsOf = (endpoint: Format | 'gemini', json: Record<string, unknown>) =>
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

/** The lists, by what the types have and by what the code does with it. */
export async function toAllLists(types: SdkTypes): Promise<string> {
  const all: string[] = []
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
    all.push(
      toLists(`Fields of ${title}`, [...fields, ...lists.fields.split(' ')], (name) => wayOfField(format, name)),
      toLists(`Tools of ${title}`, [...tools, ...lists.tools.split(' ')], (type) => wayOfTool(format, type)),
      toLists(
        `Nested fields of ${title}`,
        [...within.keys()].filter((name) => name !== 'type' && held(name) !== 'passes'),
        held,
      ),
      toLists(
        `Other values of \`type\` in ${title}`,
        [...words.keys()].filter((type) => !tools.includes(type) && heldType(type) !== 'passes'),
        heldType,
      ),
    )
  }
  return [...all, ...(await toGeminiLists(types))].join('\n\n')
}

/** Its objects have no `type`, and its tools are fields of a tool. */
async function toGeminiLists(types: SdkTypes): Promise<string[]> {
  const { fields, within } = await types.reach('gemini')
  const wayOf = (json: Record<string, unknown>, otherwise: Way = 'passes'): Way =>
    doubtsOf('gemini', json)[0]?.reason ?? otherwise
  const wayOfField = (name: string) => wayOf({ [name]: VALUE }, isRouting(name) ? 'left out' : 'passes')
  const wayOfTool = (name: string): Way => {
    const [doubt] = doubtsOf('gemini', { tools: [{ [name]: {} }] })
    if (doubt?.price) return 'kept'
    return doubt ? 'only' : 'passes'
  }
  const wayWithin = (name: string) => wayOf({ generationConfig: { [name]: VALUE } })
  const tools = [...within].flatMap(([name, path]) => (/^tools\[\]\.\w+$/.test(path) ? name : []))
  // Of schemas, which may have any names, and of tools that don't pass.
  const isElsewhere = (path: string) => /parameters|Schema|^tools\[\]\.(?!functionDeclarations)/.test(path)
  const nested = [...within].flatMap(([name, path]) => (isElsewhere(path) || wayWithin(name) === 'passes' ? [] : name))
  return [
    toLists('Fields of Gemini', fields, wayOfField),
    toLists('Tools of Gemini', tools, wayOfTool),
    toLists('Nested fields of Gemini', nested, wayWithin),
  ]
}

function toLists(title: string, names: string[], wayOf: (name: string) => Way): string {
  const byText = new Map<string, string[]>(Object.values(WAYS).map((text) => [text, []]))
  for (const name of [...new Set(names)].sort()) byText.get(WAYS[wayOf(name)])?.push(name)
  const lists = [...byText].filter(([, some]) => some.length > 0)
  return [`### ${title}`, ...lists.map(([text, some]) => `${text}:\n\n\`\`\`text\n${toLines(some)}\n\`\`\``)].join(
    '\n\n',
  )
}

/** Between commas, in lines of at most 100 characters. */
const toLines = (names: string[]): string =>
  names
    .join(', ')
    .replace(/(.{1,99}(?:,|$)) ?/g, '$1\n')
    .trimEnd()

const BEGIN = '<!-- Written by `bun test/sdk-fields.ts` from here. -->\n\n'
const END = '\n\n<!-- To here. -->'

/** The lists as they are in the docs. */
export async function readWritten(): Promise<string> {
  const text = await Bun.file(PAGE).text()
  return text.slice(text.indexOf(BEGIN) + BEGIN.length, text.indexOf(END))
}

if (import.meta.main) {
  const types = await openSdkTypes()
  const lists = await toAllLists(types)
  await types.close()
  const before = await readWritten()
  const text = await Bun.file(PAGE).text()
  await Bun.write(
    PAGE,
    text.replace(`${BEGIN}${before}`, () => `${BEGIN}${lists}`),
  )
  const names = (of: string) => new Set(of.match(/\w+/g))
  const added = names(lists).difference(names(before))
  console.log(added.size === 0 ? 'The lists have no new name.' : `New: ${[...added].join(', ')}`)
}
