/**
 * The request of `models.generateContent` (ai.google.dev/api/generate-content), as far as used here, with names in camel case. Unknown
 * fields are allowed and dropped. Null means absent.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const text = () => Type.String()
const JsonObject = Type.Record(Type.String(), Type.Unknown())

const Blob = Type.Object({ mimeType: optional(text()), data: text() })
const FileData = Type.Object({ mimeType: optional(text()), fileUri: text() })
const FunctionCall = Type.Object({ id: optional(text()), name: text(), args: optional(JsonObject) })
const FunctionResponse = Type.Object({
  id: optional(text()),
  name: optional(text()),
  response: optional(JsonObject),
  parts: optional(Type.Array(Type.Object({ inlineData: optional(Blob), fileData: optional(FileData) }))),
})
/** A part has one of these fields, with flags. Parts of unknown kinds have none. */
const Part = Type.Object({
  text: optional(text()),
  thought: optional(Type.Boolean()),
  /** Base64. */
  thoughtSignature: optional(text()),
  inlineData: optional(Blob),
  fileData: optional(FileData),
  functionCall: optional(FunctionCall),
  functionResponse: optional(FunctionResponse),
  executableCode: optional(Type.Object({ code: optional(text()) })),
  codeExecutionResult: optional(Type.Object({ output: optional(text()) })),
})
const Content = Type.Object({ role: optional(text()), parts: optional(Type.Array(Part)) })

const FunctionDeclaration = Type.Object({
  name: Type.String({ minLength: 1 }),
  description: optional(text()),
  parameters: optional(JsonObject),
  parametersJsonSchema: optional(JsonObject),
})
const Tool = Type.Object({ functionDeclarations: optional(Type.Array(FunctionDeclaration)) })
const ToolConfig = Type.Object({
  functionCallingConfig: optional(
    Type.Object({ mode: optional(text()), allowedFunctionNames: optional(Type.Array(text())) }),
  ),
})

const penalty = () => optional(Type.Number({ minimum: -2, maximum: 2 }))
const GenerationConfig = Type.Object({
  stopSequences: optional(Type.Array(text(), { maxItems: 256 })),
  candidateCount: optional(Type.Integer({ minimum: 1, maximum: 128 })),
  maxOutputTokens: optional(Type.Integer({ minimum: 1 })),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  topP: optional(Type.Number({ minimum: 0, maximum: 1 })),
  topK: optional(Type.Number({ minimum: 0 })),
  seed: optional(Type.Integer({ minimum: -(2 ** 63), maximum: 2 ** 63 })),
  presencePenalty: penalty(),
  frequencyPenalty: penalty(),
  responseLogprobs: optional(Type.Boolean()),
  logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
  responseMimeType: optional(text()),
  responseSchema: optional(JsonObject),
  responseJsonSchema: optional(JsonObject),
  responseModalities: optional(Type.Array(text())),
  thinkingConfig: optional(
    Type.Object({
      includeThoughts: optional(Type.Boolean()),
      thinkingBudget: optional(Type.Integer({ minimum: -1 })),
      thinkingLevel: optional(text()),
    }),
  ),
})

export const GeminiSchema = Type.Object({
  contents: Type.Array(Content, { minItems: 1 }),
  systemInstruction: optional(Content),
  tools: optional(Type.Array(Tool)),
  toolConfig: optional(ToolConfig),
  generationConfig: optional(GenerationConfig),
  safetySettings: optional(Type.Array(JsonObject)),
  cachedContent: optional(text()),
  serviceTier: optional(text()),
})

export type GeminiBody = Static<typeof GeminiSchema>
export type GenerationConfig = Static<typeof GenerationConfig>
export type Content = Static<typeof Content>
export type Part = Static<typeof Part>
