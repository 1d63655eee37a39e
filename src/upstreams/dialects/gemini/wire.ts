/** What the Gemini API is sent, as far as it is used here (generateContent, v1beta; Vertex has the same). Types only. */

export interface Blob {
  mimeType: string
  /** In base64. */
  data: string
}

export interface FunctionCall {
  /** Vertex takes none. */
  id?: string
  name: string
  args: Record<string, unknown>
}

export interface FunctionResponse {
  id?: string
  name: string
  /** `output` is what the tool said, or `error` why it did not. */
  response: { output: string } | { error: string }
  /** Pictures, since Gemini 3. */
  parts?: Part[]
}

/** One of the first four, and perhaps the signature by which the model knows its own thoughts again. */
export interface Part {
  text?: string
  inlineData?: Blob
  fileData?: { mimeType: string; fileUri: string }
  functionCall?: FunctionCall
  functionResponse?: FunctionResponse
  thoughtSignature?: string
}

export interface Content {
  role: 'user' | 'model'
  parts: Part[]
}

export interface FunctionDeclaration {
  name: string
  description?: string
  /** JSON Schema as it is; left out where there are no arguments. */
  parametersJsonSchema?: Record<string, unknown>
}

export interface ToolConfig {
  functionCallingConfig?: {
    mode: 'AUTO' | 'ANY' | 'NONE' | 'VALIDATED'
    allowedFunctionNames?: string[]
  }
  /** Vertex does not know it. */
  includeServerSideToolInvocations?: true
}

/** One control of the two, never both. */
export interface ThinkingConfig {
  includeThoughts?: boolean
  thinkingLevel?: string
  thinkingBudget?: number
}

export interface GenerationConfig {
  maxOutputTokens?: number
  temperature?: number
  topP?: number
  topK?: number
  stopSequences?: string[]
  seed?: number
  presencePenalty?: number
  frequencyPenalty?: number
  candidateCount?: number
  responseLogprobs?: boolean
  logprobs?: number
  responseMimeType?: string
  responseJsonSchema?: Record<string, unknown>
  responseModalities?: string[]
  thinkingConfig?: ThinkingConfig
}

export type Tool = { functionDeclarations: FunctionDeclaration[] } | { googleSearch: Record<string, never> }

export interface GenerateContent {
  contents: Content[]
  systemInstruction?: { parts: Part[] }
  tools?: Tool[]
  toolConfig?: ToolConfig
  generationConfig?: GenerationConfig
  safetySettings?: unknown[]
  cachedContent?: string
  serviceTier?: string
}
