/** Batches as OpenAI's client creates them. */
import OpenAI, { toFile } from 'openai'

export const CHAT = '/v1/chat/completions'

export const toClient = (apiKey: string, baseURL: string) => new OpenAI({ apiKey, baseURL, maxRetries: 2 })

export const toChatLine = (customId: string, body: object, more: object = {}) => ({
  ...{ custom_id: customId, method: 'POST', url: CHAT, body },
  ...more,
})

/** @param lines strings are sent unchanged. */
export async function uploadLines(client: OpenAI, lines: readonly unknown[]): Promise<string> {
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')
  const { id } = await client.files.create({ purpose: 'batch', file: await toFile(Buffer.from(text), 'input.jsonl') })
  return id
}

export async function beginBatch(client: OpenAI, lines: readonly unknown[]) {
  const input_file_id = await uploadLines(client, lines)
  return client.batches.create({ input_file_id, endpoint: CHAT, completion_window: '24h' })
}

const FINAL = ['completed', 'failed', 'expired', 'cancelled']

export async function endedBatch(client: OpenAI, id: string) {
  for (;;) {
    const batch = await client.batches.retrieve(id)
    if (FINAL.includes(batch.status)) return batch
    await Bun.sleep(10)
  }
}

/** Lines of an output or error file. */
// biome-ignore lint/suspicious/noExplicitAny: for tests to look into
export async function readLines(client: OpenAI, id: string | null | undefined): Promise<any[]> {
  if (!id) return []
  const text = await (await client.files.content(id)).text()
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}
