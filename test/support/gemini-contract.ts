/** The contract of our own GenerateContent responses, which Google's clients read. */

// biome-ignore lint/suspicious/noExplicitAny: what a client reads is whatever came
type Json = any

const REASONS = ['STOP', 'MAX_TOKENS', 'SAFETY']

function must(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(`the response has ${what}`)
}

function checkChunk({ candidates, modelVersion, responseId }: Json): void {
  must(typeof modelVersion === 'string' && /^[0-9a-f]{32}$/.test(responseId), 'no names')
  must(Array.isArray(candidates) && candidates.length > 0, 'no candidates')
  for (const { content, index } of candidates) {
    must(Number.isInteger(index) && content.role === 'model', 'a candidate without index or role')
    for (const part of content.parts) {
      const kinds = ['text', 'functionCall', 'inlineData'].filter((kind) => part[kind] !== undefined)
      must(kinds.length === 1, `a part of ${kinds.length} kinds`)
    }
  }
}

function checkEnd(chunk: Json): void {
  checkChunk(chunk)
  for (const { finishReason } of chunk.candidates) must(REASONS.includes(finishReason), `the reason ${finishReason}`)
  const { promptTokenCount, candidatesTokenCount, thoughtsTokenCount = 0, totalTokenCount, cost } = chunk.usageMetadata
  const { toolUsePromptTokenCount = 0 } = chunk.usageMetadata
  const sum = promptTokenCount + toolUsePromptTokenCount + candidatesTokenCount + thoughtsTokenCount
  must(sum === totalTokenCount && typeof cost === 'number', 'counts that do not add up')
}

/** Throws if it breaks the contract. */
export const checkGemini = (json: string): void => checkEnd(JSON.parse(json))

export function checkGeminiStream(text: string): void {
  const frames = text.split('\n\n').filter((frame) => frame !== '' && !frame.startsWith(':'))
  const chunks = frames.map((frame) => JSON.parse(frame.replace(/^data: /, '')))
  const isFailed = chunks.at(-1).error !== undefined
  for (const chunk of chunks.slice(0, -1)) {
    checkChunk(chunk)
    must(chunk.usageMetadata === undefined, 'usage before its end')
    for (const { finishReason } of chunk.candidates) must(finishReason === undefined, 'an end before its end')
  }
  if (!isFailed) checkEnd(chunks.at(-1))
}
