/** Types of the official client libraries that `sdk-types.ts` inspects. */
import type Anthropic from '@anthropic-ai/sdk'
import type { Content, GenerateContentConfig, GenerationConfig, Tool } from '@google/genai'
import type OpenAI from 'openai'

/** As sent: the library's type has all except the contents in one object. */
type Gemini = Pick<
  GenerateContentConfig,
  'cachedContent' | 'labels' | 'modelArmorConfig' | 'safetySettings' | 'serviceTier' | 'store' | 'toolConfig'
> & { contents: Content[]; systemInstruction: Content; generationConfig: GenerationConfig; tools: Tool[] }

export interface Requests {
  messages: Anthropic.Beta.Messages.MessageCreateParamsNonStreaming
  responses: OpenAI.Responses.ResponseCreateParamsNonStreaming
  gemini: Gemini
  messagesTools: { tool: Anthropic.Beta.BetaToolUnion }
  responsesTools: { tool: OpenAI.Responses.Tool }
}

export interface Answers {
  chat: OpenAI.ChatCompletion
  chunk: OpenAI.ChatCompletionChunk
  embeddings: OpenAI.CreateEmbeddingResponse
  response: OpenAI.Responses.Response
  responseEvent: OpenAI.Responses.ResponseStreamEvent
  responseTokens: OpenAI.Responses.InputTokenCountResponse
  message: Anthropic.Message
  messageEvent: Anthropic.RawMessageStreamEvent
  messageTokens: Anthropic.MessageTokensCount
  betaMessage: Anthropic.Beta.BetaMessage
  model: OpenAI.Model
  anthropicModel: Anthropic.ModelInfo
  betaModel: Anthropic.Beta.BetaModelInfo
}
