/** The part of the Gemini API used here (generateContent, v1beta; the same on Vertex). */

export interface Blob {
  mimeType: string
  /** Base64. */
  data: string
}

export interface FunctionCall {
  /** Not accepted by Vertex. */
  id?: string
  name: string
  args: Record<string, unknown>
}

export interface FunctionResponse {
  id?: string
  name: string
  /** `output` is the tool's result, `error` why it failed. */
  response: { output: string } | { error: string }
  /** Images, since Gemini 3. */
  parts?: Part[]
}

/** One of the first five fields, with an optional signature by which the model recognizes its reasoning. */
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
  parametersJsonSchema?: Record<string, unknown>
}

export interface ToolConfig {
  functionCallingConfig?: {
    mode: 'AUTO' | 'ANY' | 'NONE' | 'VALIDATED'
    allowedFunctionNames?: string[]
  }
  /** Unknown to Vertex. */
  includeServerSideToolInvocations?: true
}

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
  imageConfig?: { aspectRatio?: string | undefined; imageSize?: string | undefined }
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
